// Package supervise runs one command at a time to its proven end: until no process that came from it is alive, whatever
// it did to get away. It knows processes, pipes, time and limits; it knows no git and no workspace.
//
// For each command the program re-executes itself as a supervisor, which starts the command, stores its output, keeps
// its deadline and its limits, and at the end kills what is left below it. A pipe ties the supervisor to its parent:
// when the parent dies, the supervisor ends everything at once. When the supervisor itself is killed, its parent, which
// has called [BecomeSubreaper], inherits what is left and ends it.
//
// Limits are held by what works on the machine, which [Probe] finds out by trying: control groups, resource limits,
// namespaces, Landlock, and looks at the processes and the disk every so often. A command whose limits need namespaces
// runs in a box: its supervisor is process 1 there, entered through one process that makes the namespaces. What a command
// has to carry and its supervisor must not, is put on by a stage, the process that becomes the command.
//
// The adapter of the local plugin is the only one that enters. Its main calls [Main] before anything else, and the
// process has one [Runner]: whatever lands below the process without being known to that Runner, in another session
// than the process's own, is taken for the remains of a command and killed when a supervisor was lost. Other children
// of the process therefore stay in its session.
package supervise
