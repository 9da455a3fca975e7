package pluginhost

import "strings"

// lifelineFD is the descriptor of an adapter that its lifeline arrives at: the first one after stderr.
const lifelineFD = "3"

// allowed lists the variables of the harness that an adapter gets, beside those that begin with XDG_. Nothing else
// passes: credentials reach an adapter by Configure alone, and variables of git or of a remote service would steer it
// behind the definition's back.
func allowed(name string) bool {
	switch name {
	case "PATH", "HOME", "TMPDIR", "LANG", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR":
		return true
	case "GODEBUG", "GOMAXPROCS", "GORACE", "GOTRACEBACK": // adapters are Go programs
		return true
	}
	return strings.HasPrefix(name, "XDG_")
}

// environment filters the environment of the harness. Messages of tools are read by programs, so they are asked for
// in the C locale.
func environment(environ []string) []string {
	env := []string{"LC_ALL=C"}
	for _, kv := range environ {
		name, _, found := strings.Cut(kv, "=")
		if found && allowed(name) {
			env = append(env, kv)
		}
	}
	return env
}

// lookup finds a variable in an environment; the last one counts, as with exec.
func lookup(environ []string, name string) string {
	value := ""
	for _, kv := range environ {
		if n, v, _ := strings.Cut(kv, "="); n == name {
			value = v
		}
	}
	return value
}
