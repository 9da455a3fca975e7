package supervise

import "os"

// runtimeSettings are the variables that steer the runtime of Go. The processes that stand between the adapter and a
// command get them from the adapter, and nothing else of its environment; commands do not get them.
func runtimeSettings() []string {
	env := []string{}
	for _, name := range []string{"GODEBUG", "GOMAXPROCS", "GORACE", "GOTRACEBACK"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
