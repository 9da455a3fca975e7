package definition

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/hcl/v2"
)

// schema is the schema of a block: its arguments, where a "!" in front marks a required one, and its nested blocks with
// the number of their labels.
func schema(args []string, blocks ...hcl.BlockHeaderSchema) *hcl.BodySchema {
	s := &hcl.BodySchema{Blocks: blocks}
	for _, a := range args {
		required := a[0] == '!'
		if required {
			a = a[1:]
		}
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a, Required: required})
	}
	return s
}

func header(name string, labels ...string) hcl.BlockHeaderSchema {
	return hcl.BlockHeaderSchema{Type: name, LabelNames: labels}
}

// content reads the arguments and blocks of a body by a schema and reports what does not belong there.
func (l *loader) content(body hcl.Body, s *hcl.BodySchema) *hcl.BodyContent {
	content, diags := body.Content(s)
	l.addAll(diags, "")
	return content
}

// name is what labels may look like: they become addresses, folders and branches.
var name = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$`)

// topLevel collects the blocks of all files by type, and reports names that cannot be used or are taken.
func (l *loader) topLevel() map[string][]*hcl.Block {
	top := schema(nil, header("harness"), header("run"), header("variable", "name"), header("locals"),
		header("credentials", "kind", "name"), header("adapter", "kind", "name"), header("task", "name"),
		header("variant", "name"), header("trial", "name"), header("metric", "name"), header("threshold", "name"))
	out := map[string][]*hcl.Block{}
	first := map[string]hcl.Range{}
	for _, s := range l.order {
		if s.file == nil {
			continue
		}
		for _, b := range l.content(s.file.Body, top).Blocks {
			out[b.Type] = append(out[b.Type], b)
			l.checkLabels(b)
			if b.Type != "locals" {
				l.checkFirst(b, first)
			}
		}
	}
	return out
}

func (l *loader) checkLabels(b *hcl.Block) {
	for i, label := range b.Labels {
		if !name.MatchString(label) {
			l.fail(&b.LabelRanges[i], "Name cannot be used", fmt.Sprintf(
				"%q cannot be a name: a name has at most 63 letters, digits, and _ . - inside it. Keys of for_each may be any text.", label))
		}
	}
}

// checkFirst reports a block whose name is taken already. The names of adapters are unique across their kinds, since
// records and --credentials use them alone.
func (l *loader) checkFirst(b *hcl.Block, first map[string]hcl.Range) {
	key, shown := b.Type, b.Type
	for i, label := range b.Labels {
		if b.Type != "adapter" || i == 1 {
			key += "." + label
		}
		shown += fmt.Sprintf(" %q", label)
	}
	if before, ok := first[key]; ok {
		l.fail(&b.DefRange, "Defined twice", fmt.Sprintf("%s is defined already at %s.", shown, at(before)))
		return
	}
	first[key] = b.DefRange
}

// single returns the one nested block of a type, nil where there is none, and reports a second one.
func (l *loader) single(content *hcl.BodyContent, kind string) *hcl.Block {
	var found *hcl.Block
	for _, b := range content.Blocks {
		if b.Type != kind {
			continue
		}
		if found != nil {
			l.fail(&b.DefRange, "Defined twice", fmt.Sprintf("There is a %s block already at %s; only one may stand here.", kind, at(found.DefRange)))
			continue
		}
		found = b
	}
	return found
}
