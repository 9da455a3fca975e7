// Package secrets fetches the values that a plan only refers to: from a variable, a file or a program. It is used by
// the command, when a run starts; whatever it says of a failure names the source and never holds the value.
package secrets
