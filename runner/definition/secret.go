package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"cellharness/runner/plan"
	"cellharness/shared"
)

const hiddenText = "(sensitive)"

// secretRef is what a secret is inside the language: where the value is, never the value. The language refuses by itself
// to make text of it.
type secretRef struct {
	source string
	args   []string
}

// MarshalJSON closes the one way that is left: jsonencode and format("%v") marshal what a capsule holds.
func (secretRef) MarshalJSON() ([]byte, error) {
	return nil, errors.New("a secret cannot be turned into text")
}

// String keeps panics and logs from showing more than the word.
func (secretRef) String() string { return hiddenText }

var secretType = cty.CapsuleWithOps("secret", reflect.TypeOf(secretRef{}), &cty.CapsuleOps{
	GoString:     func(any) string { return hiddenText },
	TypeGoString: func(reflect.Type) string { return "secret" },
	RawEquals: func(a, b any) bool {
		x, y := a.(*secretRef), b.(*secretRef)
		return x.source == y.source && reflect.DeepEqual(x.args, y.args)
	},
})

// toSecret reads a secret for the given name; example is what its variable could be called.
func toSecret(v cty.Value, name, example string) (plan.SecretRef, error) {
	if v.IsMarked() {
		return plan.SecretRef{}, errSensitive
	}
	if v.IsNull() {
		return plan.SecretRef{}, errNull
	}
	if !v.IsKnown() {
		return plan.SecretRef{}, errUnknown
	}
	if !v.Type().Equals(secretType) {
		return plan.SecretRef{}, fmt.Errorf("must say where the secret is, such as secret::env(%q)", example)
	}
	ref := v.EncapsulatedValue().(*secretRef)
	return plan.SecretRef{Name: name, Source: ref.source, Args: ref.args}, nil
}

// secretFunctions are secret::env, secret::file and secret::exec. Where they may not stand, allowed is false and they
// answer with the rule.
func secretFunctions(dir string, allowed bool) map[string]function.Function {
	text := function.Parameter{Name: "where", Type: cty.String}
	list := function.Parameter{Name: "argv", Type: cty.List(cty.String)}
	make := func(source string, param function.Parameter, args func(cty.Value) ([]string, error)) function.Function {
		return function.New(&function.Spec{
			Params: []function.Parameter{param},
			Type: func([]cty.Value) (cty.Type, error) {
				if !allowed {
					return cty.NilType, errors.New("a secret may stand only in credentials and as a whole value in an exec cell's env")
				}
				return secretType, nil
			},
			Impl: func(values []cty.Value, _ cty.Type) (cty.Value, error) {
				a, err := args(values[0])
				if err != nil {
					return cty.NilVal, err
				}
				return cty.CapsuleVal(secretType, &secretRef{source, a}), nil
			},
		})
	}
	return map[string]function.Function{
		"secret::env": make("env", text, nonEmpty),
		"secret::file": make("file", text, func(v cty.Value) ([]string, error) {
			args, err := nonEmpty(v)
			if err == nil && !filepath.IsAbs(args[0]) {
				args[0] = filepath.Join(dir, args[0])
			}
			return args, err
		}),
		"secret::exec": make("exec", list, argvOf),
	}
}

func nonEmpty(v cty.Value) ([]string, error) {
	s, err := toArgument(v)
	if err == nil && s == "" {
		err = errors.New("is empty")
	}
	return []string{s}, err
}

func argvOf(v cty.Value) ([]string, error) {
	var argv []string
	for i, e := range v.AsValueSlice() {
		s, err := toArgument(e)
		if err != nil {
			return nil, fmt.Errorf("argument %d %w", i, err)
		}
		argv = append(argv, s)
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("names no program")
	}
	return argv, nil
}

// conceal takes every text in v for sensitive from now on.
func (l *loader) conceal(v cty.Value) {
	unmarked, _ := v.UnmarkDeep()
	// The visitor itself never fails.
	_ = cty.Walk(unmarked, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.IsKnown() && !v.IsNull() && v.Type().IsPrimitiveType() && v.Type() != cty.Bool {
			if text, err := toText(v); err == nil {
				l.concealText(text)
			}
		}
		return true, nil
	})
}

// concealText hides a text wherever it would be shown. Shorter ones would hide everything else with them.
func (l *loader) concealText(text string) {
	const shortest = 3
	if len(strings.TrimSpace(text)) < shortest {
		return
	}
	l.hidden = append(l.hidden, text)
	if quoted := fmt.Sprintf("%q", text); quoted[1:len(quoted)-1] != text {
		l.hidden = append(l.hidden, quoted[1:len(quoted)-1])
	}
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); len(line) >= shortest && line != text {
			l.hidden = append(l.hidden, line)
		}
	}
	// The longest first, so that a part of one does not leave the rest of it standing.
	sort.SliceStable(l.hidden, func(i, j int) bool { return len(l.hidden[i]) > len(l.hidden[j]) })
}

func (l *loader) hide(text string) string {
	for _, h := range l.hidden {
		text = strings.ReplaceAll(text, h, hiddenText)
	}
	return text
}

// concealLiterals hides every text that is written into the value of a secret setting, before it is evaluated: what is
// wrong with such a value may be told with the text in it.
func (l *loader) concealLiterals(f *field) {
	place := f.expr.Range()
	s := l.sources[place.Filename]
	if s == nil || !place.CanSliceBytes(s.bytes) {
		return
	}
	var tokens hclsyntax.Tokens
	src := place.SliceBytes(s.bytes)
	if isJSON(s.name) {
		var text string
		if json.Unmarshal(src, &text) != nil || strings.HasPrefix(text, "${secret::") {
			return
		}
		tokens, _ = hclsyntax.LexTemplate([]byte(text), s.name, place.Start)
	} else {
		if call, ok := f.expr.(*hclsyntax.FunctionCallExpr); ok && strings.HasPrefix(call.Name, "secret::") {
			return
		}
		tokens, _ = hclsyntax.LexExpression(src, s.name, place.Start)
	}
	for _, t := range tokens {
		if t.Type != hclsyntax.TokenQuotedLit && t.Type != hclsyntax.TokenStringLit {
			continue
		}
		l.concealText(string(t.Bytes))
		if text, err := strconv.Unquote(`"` + string(t.Bytes) + `"`); err == nil {
			l.concealText(text)
		}
	}
}

// inCredentials tells whether a context is that of a credentials block.
func inCredentials(context string) bool { return strings.HasPrefix(context, "credentials ") }

// fromEnv is the one value in a credentials block that is shown beside an error: it holds no secret.
var fromEnv = regexp.MustCompile(`^\s*secret::env\("[A-Za-z_][A-Za-z0-9_]*"\)\s*$`)

// hideLine hides known secrets in a source line, and the value on a line that sets a secret or stands in a credentials
// block: a file with an error may hold one that nobody has evaluated, under any name.
func (l *loader) hideLine(line string, credentials bool) string {
	line = l.hide(line)
	at := -1
	if i := strings.IndexAny(line, "=:"); credentials && i >= 0 {
		at = i
	} else if place := l.secretNames.FindStringIndex(line); place != nil {
		at = place[1] - 1
	}
	if at < 0 {
		return line
	}
	value := strings.TrimLeft(line[at+1:], ` "${`)
	if value == "" || value == "null" || fromEnv.MatchString(line[at+1:]) {
		return line
	}
	return line[:at+1] + " " + hiddenText
}

// hideWords hides, in a message about a place in a credentials block, every word of the value that stands there.
func (l *loader) hideWords(text string, s *source, r hcl.Range) string {
	from, to := s.lineOf(r)
	line := string(s.bytes[from:to])
	i := strings.IndexAny(line, "=:")
	if i < 0 || fromEnv.MatchString(line[i+1:]) {
		return text
	}
	words := strings.FieldsFunc(line[i+1:], func(c rune) bool { return strings.ContainsRune(" \t\"'`()[]{},$", c) })
	for _, w := range words {
		if len(w) >= minHiddenWord && !strings.HasPrefix(w, "secret::") {
			text = strings.ReplaceAll(text, w, hiddenText)
		}
	}
	return text
}

// minHiddenWord spares words that are too short for a secret and so common that a message without them says nothing.
const minHiddenWord = 6

// secretNamePattern matches the name of a secret setting and what separates it from its value.
func secretNamePattern(kinds []shared.Kind) *regexp.Regexp {
	names := []string{}
	for _, k := range kinds {
		for _, s := range k.Credentials.Settings {
			if s.Type == shared.SettingSecret {
				names = append(names, regexp.QuoteMeta(s.Name))
			}
		}
	}
	if len(names) == 0 {
		return regexp.MustCompile(`\z.`) // matches nothing
	}
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)"?\s*[=:]`)
}
