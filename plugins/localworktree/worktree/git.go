package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DefaultTimeout bounds one git call where Options.Timeout is zero. A fixed 30 seconds was seen to cut parallel
// checkouts of 5,000 files short, so it leaves a factor of twenty.
const DefaultTimeout = 10 * time.Minute

// MinimumVersion is the oldest git that works: GIT_CONFIG_GLOBAL came with 2.32.
const MinimumVersion = "2.32"

// Options say how git is found and run.
type Options struct {
	Path string // list of directories in which git is looked up, and its children look for programs
	Home string // home of the user, whose safe.directory settings count when a repository is read
	// Timeout bounds each git call. Zero means DefaultTimeout.
	Timeout time.Duration
}

// Git runs git commands in an environment that is built from nothing: no variable, no configuration, no attribute and
// no hook of the user or of a cell reaches them. It may be used from many goroutines at once.
type Git struct {
	program string
	path    string
	home    string
	version string
	timeout time.Duration
	// safe holds the user's safe.directory settings as a configuration file, nil where there are none.
	safe *os.File
}

// New finds git in options.Path and checks its version. It fails with ErrGit.
func New(ctx context.Context, options Options) (*Git, error) {
	if options.Timeout < 0 {
		return nil, fmt.Errorf("the git timeout %v is negative", options.Timeout)
	}
	program, err := findProgram(options.Path)
	if err != nil {
		return nil, err
	}
	g := &Git{program: program, path: options.Path, home: options.Home, timeout: options.Timeout}
	if g.timeout == 0 {
		g.timeout = DefaultTimeout
	}
	out, err := g.output(ctx, command{args: []string{"version"}})
	if err != nil {
		return nil, fail(ErrGit, "%s does not run: %v", program, err)
	}
	if g.version, err = checkVersion(program, out); err != nil {
		return nil, err
	}
	if g.safe, err = g.safeDirectories(ctx); err != nil {
		return nil, fmt.Errorf("read the safe.directory settings of the user: %w", err)
	}
	return g, nil
}

// Version returns the version of git, such as "2.39.5".
func (g *Git) Version() string { return g.version }

// findProgram looks git up in the absolute directories of path. A relative one would mean another program in every
// directory that a command runs in.
func findProgram(path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		name := filepath.Join(dir, "git")
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", fail(ErrGit, "no git program in PATH (%s); install git %s or newer", path, MinimumVersion)
}

var versionPattern = regexp.MustCompile(`^git version ((\d+)\.(\d+)\S*)`)

func checkVersion(program, output string) (string, error) {
	m := versionPattern.FindStringSubmatch(output)
	if m == nil {
		return "", fail(ErrGit, "%s is no git: it says %q", program, output)
	}
	major, errMajor := strconv.Atoi(m[2])
	minor, errMinor := strconv.Atoi(m[3])
	if err := errors.Join(errMajor, errMinor); err != nil {
		return "", fail(ErrGit, "%s has a version that cannot be read: %v", program, err)
	}
	if major < 2 || (major == 2 && minor < 32) {
		return "", fail(ErrGit, "%s is version %s; version %s or newer is needed", program, m[1], MinimumVersion)
	}
	return m[1], nil
}

// safeDirectories copies the user's and the machine's safe.directory settings, and nothing else of their
// configuration, into a file that was unlinked already, so that no process can leave it behind. A file is needed: the
// upload-pack child of a fetch does not see what is given with -c.
func (g *Git) safeDirectories(ctx context.Context) (*os.File, error) {
	out, err := g.output(ctx, command{
		// With a git directory that is none, git reads the user's and the machine's configuration only.
		args:       []string{"config", "-z", "--get-all", "safe.directory"},
		env:        []string{"GIT_DIR=/dev/null"},
		userConfig: true,
	})
	if exitCode(err) == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "safe-directory-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	var text strings.Builder
	text.WriteString("[safe]\n")
	for value := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		text.WriteString("\tdirectory = " + configQuote(value) + "\n")
	}
	if _, err := file.WriteString(text.String()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// configQuote writes s as a value of a git configuration file.
func configQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// environment returns the environment of a git call, from nothing.
func (g *Git) environment(c command) []string {
	env := []string{
		"PATH=" + g.path,
		"HOME=" + g.home,
		"LC_ALL=C",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_REPLACE_OBJECTS=1",
		// Neither a partial clone nor a submodule makes git use the network; "file" is what a local fetch needs.
		"GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=" + c.protocol(),
	}
	switch {
	case c.userConfig:
	case c.source && g.safe != nil:
		env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/fd/3")
	default:
		env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	}
	return append(env, c.env...)
}

// settings are given with every call. They win over the configuration of the repository that is read.
func settings(c command) []string {
	values := []string{
		"gc.auto=0",
		"maintenance.auto=false", // git 2.55 prunes worktree registrations in the background after a fetch
		"protocol.version=2",     // a commit that is no tip can be fetched by its id
		"core.hooksPath=/dev/null",
		"core.fsmonitor=false",
		"core.attributesFile=/dev/null",
		"core.untrackedCache=false",
		"core.safecrlf=false",
		"advice.addEmbeddedRepo=false",
		"index.version=2",     // what parseIndex reads
		"fetch.unpackLimit=1", // one pack, however few the objects: less room and fewer files than loose ones
	}
	if !c.source {
		values = append(values, "core.excludesFile=/dev/null")
	}
	var args []string
	for _, value := range values {
		args = append(args, "-c", value)
	}
	return args
}
