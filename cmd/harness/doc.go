// Command harness measures commands and coding agents: it reads trial definitions, gives every cell a workspace of its
// own through an adapter process, and says what came out. This package holds flags, rendering and exit codes, and
// plugs the packages below runner together; it is the only place that reads arguments, environment and signals.
package main
