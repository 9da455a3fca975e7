// Package definition turns HCL into a frozen plan: files in, plan.Plan out. It is the only room of the module that knows
// HCL and cty; whoever wants a value out of a definition asks here and gets plain Go types.
//
// A load runs in fixed steps: files are read, guarded against hostile nesting and parsed; variables and locals get
// values; adapters, credentials, tasks and variants become objects that trials refer to; trials are expanded into
// cells, each with everything that was evaluated for it. All errors are collected and reported at once, by place.
// Capabilities of adapters may be asked only in requires, so what is frozen for a cell never depends on them.
//
// Nothing here starts a process or resolves a secret. Expressions that need a result (pass, value, condition) are
// frozen together with the values they mention and evaluated later by Pass, MetricValue and Condition.
package definition
