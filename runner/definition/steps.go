package definition

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// Defaults of a cell that says nothing else, and the wait before a second attempt.
const (
	defaultPromptTimeout = 30 * time.Minute
	defaultExecTimeout   = 5 * time.Minute
	defaultAttempts      = 2
	defaultBackoff       = 10 * time.Second
)

// The spellings of the kinds of cell.
const (
	promptCell = "prompt_cell"
	execCell   = "exec_cell"
)

// maxArgument is the most bytes of one argument or variable with its closing NUL left out (MAX_ARG_STRLEN of Linux is
// 131,072).
const maxArgument = 131_071

// step is a setup, cell or verify block: the fields of its command, and those of the nested blocks.
type step struct {
	block                            *hcl.Block
	kind, entrypoint, stdin, timeout *field
	env, seeds, artifacts            *field
	workspace, pass                  *field
	limits, isolation                map[string]*field // nil where the block is not there
	attempts, backoff                *field
	condition, message               *field
}

// stepOf reads what all steps have; names and blocks are what this one has beside it.
func (l *loader) stepOf(b *hcl.Block, at place, names []string, blocks ...hcl.BlockHeaderSchema) (*step, *hcl.BodyContent) {
	blocks = append(blocks, header("limits"), header("isolation"))
	content := l.content(b.Body, schema(append([]string{"!entrypoint", "stdin", "timeout", "env"}, names...), blocks...))
	return &step{
		block:      b,
		kind:       l.required(content, "kind", at),
		entrypoint: l.required(content, "entrypoint", at),
		stdin:      l.field(content, "stdin", at),
		timeout:    l.field(content, "timeout", at),
		env:        l.field(content, "env", at.allowing(specialSecret)),
		seeds:      l.field(content, "seed_inputs", at),
		limits:     l.inner(content, "limits", at, "memory", "processes", "cpu", "disk", "file_size", "output", "require"),
		isolation:  l.inner(content, "isolation", at, "filesystem", "network"),
	}, content
}

// inner reads the fields of a nested block that may stand once; nil where it does not.
func (l *loader) inner(content *hcl.BodyContent, name string, at place, names ...string) map[string]*field {
	block := l.single(content, name)
	if block == nil {
		return nil
	}
	inner := l.content(block.Body, schema(names))
	fields := map[string]*field{}
	for _, n := range names {
		fields[n] = l.field(inner, n, at)
	}
	return fields
}

func (l *loader) setupOf(b *hcl.Block, at place) *step {
	s, _ := l.stepOf(b, at, nil)
	return s
}

func (l *loader) cellOf(b *hcl.Block, at place) *step {
	s, content := l.stepOf(b, at, []string{"!kind", "seed_inputs", "artifacts"}, header("requires"), header("retry"))
	s.artifacts = l.field(content, "artifacts", at)
	if requires := l.single(content, "requires"); requires != nil {
		inner := l.content(requires.Body, schema([]string{"!condition", "!error_message"}))
		asking := at.with(map[string]cty.Type{"each": withCapabilities(at.names["each"])})
		s.condition, s.message = l.required(inner, "condition", asking), l.required(inner, "error_message", asking)
	}
	if retry := l.single(content, "retry"); retry != nil {
		inner := l.content(retry.Body, schema([]string{"attempts", "backoff"}))
		s.attempts, s.backoff = l.field(inner, "attempts", at), l.field(inner, "backoff", at)
	}
	return s
}

func (l *loader) verifyOf(b *hcl.Block, at place) *step {
	s, content := l.stepOf(b, at, []string{"seed_inputs", "workspace", "pass"})
	s.workspace = l.field(content, "workspace", at)
	late := at.with(map[string]cty.Type{"result": commandType}).allowing(specialLate)
	s.pass = l.field(content, "pass", late)
	return s
}

// fields lists everything that is evaluated for a cell, requires left out.
func (s *step) fields() []*field {
	if s == nil {
		return nil
	}
	all := []*field{s.kind, s.entrypoint, s.stdin, s.timeout, s.env, s.seeds, s.artifacts, s.workspace, s.pass, s.attempts, s.backoff}
	for _, fields := range []map[string]*field{s.limits, s.isolation} {
		for _, f := range fields {
			all = append(all, f)
		}
	}
	return all
}

// command evaluates what all steps have. kind is the kind of cell where the block does not say it.
func (s *step) command(r *reader, kind string) plan.Step {
	out := plan.Step{Kind: kind}
	if s.kind != nil {
		out.Kind, _ = r.oneOf(s.kind, promptCell, execCell)
	}
	out.Entrypoint = r.argv(s.entrypoint)
	if text, ok := read(r, s.stdin, toText); ok {
		r.l.warnCarriageReturns(s.stdin, "stdin", text)
		blob := r.l.blob(text)
		out.Stdin = &blob
	}
	var given bool
	if out.Timeout, given = r.duration(s.timeout); !given {
		out.Timeout = defaultExecTimeout
		if out.Kind == promptCell {
			out.Timeout = defaultPromptTimeout
		}
	}
	out.Env, out.SecretEnv = r.environment(s.env)
	if out.Kind == promptCell && len(out.Env)+len(out.SecretEnv) > 0 {
		r.reportf(s.env, "A prompt cell with env", "A prompt cell uses this machine's own sign-in and takes no env; use an exec cell, or leave env out.")
	}
	out.Limits = s.readLimits(r)
	return out
}

// argv reads an entrypoint: a list is the command and its arguments, a string runs in a shell.
func (r *reader) argv(f *field) []string {
	v, ok := r.value(f)
	if !ok {
		return nil
	}
	var argv []string
	if !v.IsMarked() && (v.Type() == cty.String || holdsSecret(v.Type())) {
		script, err := toArgument(v)
		if err != nil {
			r.problem(f, f.name, err)
			return nil
		}
		r.l.warnCarriageReturns(f, f.name, script)
		if strings.TrimSpace(script) == "" { // a shell would succeed at it, and so would every cell
			r.problem(f, f.name, errors.New("names no command"))
			return nil
		}
		argv = []string{"sh", "-c", script}
	} else if argv, ok = r.textsOf(f, v); !ok {
		return nil
	}
	if len(argv) == 0 || argv[0] == "" {
		r.problem(f, f.name, errors.New("names no command"))
		return nil
	}
	for i, a := range argv {
		if len(a) > maxArgument {
			r.problem(f, fmt.Sprintf("%s[%d]", f.name, i), fmt.Errorf(
				"has %d bytes; an argument can have at most %d. Hand longer text over as stdin or as a seed", len(a), maxArgument))
			return nil
		}
	}
	return argv
}

// environment reads env: texts, and secrets as whole values.
func (r *reader) environment(f *field) (map[string]string, []plan.SecretRef) {
	var plain map[string]string
	var secrets []plan.SecretRef
	r.members(f, func(name string, v cty.Value) error {
		if err := checkVariableName(name); err != nil {
			return err
		}
		if !v.IsMarked() && !v.IsNull() && v.Type().Equals(secretType) {
			ref, err := toSecret(v, name, name)
			secrets = append(secrets, ref)
			return err
		}
		text, err := toArgument(v)
		if err != nil {
			return err
		}
		if n := len(name) + 1 + len(text); n > maxArgument {
			return fmt.Errorf("has %d bytes with its name; a variable can have at most %d", n, maxArgument)
		}
		if plain == nil {
			plain = map[string]string{}
		}
		plain[name] = text
		return nil
	})
	return plain, secrets
}

func checkVariableName(name string) error {
	for _, c := range []byte(name) {
		if c == '=' || c == 0 {
			return errors.New("is no name of a variable: it holds = or NUL")
		}
	}
	if name == "" {
		return errors.New("is no name of a variable: it is empty")
	}
	return nil
}

func (s *step) readLimits(r *reader) plan.Limits {
	if s.limits == nil && s.isolation == nil {
		return plan.Limits{}
	}
	var out plan.Limits
	filesystem, _ := r.oneOf(s.isolation["filesystem"], "workspace")
	network, _ := r.oneOf(s.isolation["network"], "none")
	out.WorkspaceOnly, out.NoNetwork = filesystem == "workspace", network == "none"
	out.MemoryBytes, _ = r.size(s.limits["memory"])
	out.Processes, _ = r.int(s.limits["processes"], 1)
	out.DiskBytes, _ = r.size(s.limits["disk"])
	out.FileBytes, _ = r.size(s.limits["file_size"])
	out.OutputBytes, _ = r.size(s.limits["output"])
	out.CPU, _ = read(r, s.limits["cpu"], func(v cty.Value) (float64, error) {
		n, err := toNumber(v)
		if err != nil {
			return 0, err
		}
		cores, _ := n.Float64()
		if cores <= 0 {
			return 0, errors.New("must be a positive number of cores")
		}
		return cores, nil
	})
	out.Require, _ = r.oneOf(s.limits["require"], shared.LevelEnforced.String(), shared.LevelBestEffort.String(), shared.LevelNone.String())
	if out.Require == "" {
		out.Require = shared.LevelBestEffort.String()
	}
	return out
}

// patterns reads artifacts: patterns of paths, and the patch.
func (r *reader) patterns(f *field) (patterns []string, diff bool) {
	given, _ := r.texts(f)
	seen := map[string]bool{}
	for i, g := range given {
		path := fmt.Sprintf("%s[%d]", f.name, i)
		if seen[g] {
			r.problem(f, path, fmt.Errorf("is %q, which stands in the list already", g))
			return nil, false
		}
		seen[g] = true
		if g == shared.DiffName {
			diff = true
			continue
		}
		if _, err := shared.ParsePattern(g); err != nil {
			r.problem(f, path, fmt.Errorf("cannot be used: %w", err))
			return nil, false
		}
		patterns = append(patterns, g)
	}
	return patterns, diff
}
