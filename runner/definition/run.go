package definition

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"

	"cellharness/runner/plan"
	"cellharness/shared"
)

// loadHarness checks the version of the harness that the definition asks for.
func (l *loader) loadHarness(blocks []*hcl.Block) {
	for _, b := range blocks {
		content := l.content(b.Body, schema([]string{"required_version"}))
		f := l.field(content, "required_version", place{})
		r := &reader{l: l}
		text, given := r.text(f)
		if !given {
			continue
		}
		wanted, err := version.NewConstraint(text)
		if err != nil {
			r.problem(f, "required_version", fmt.Errorf(`is %q, which is no version constraint; write one such as ">= 0.1.0"`, text))
			continue
		}
		have, err := version.NewVersion(shared.Version)
		if err != nil {
			r.problem(f, "required_version", err)
			continue
		}
		if !wanted.Check(have) {
			r.reportf(f, "Another version of the harness is needed", "The definition asks for %s; this is %s.", text, shared.Version)
		}
	}
}

// loadRun reads the run block, with what the command line sets instead.
func (l *loader) loadRun(blocks []*hcl.Block) (string, plan.Settings) {
	title := l.defaultName()
	run := plan.Settings{Parallelism: 1, Order: plan.OrderInterleaved, Seed: 1}
	for _, b := range blocks {
		content := l.content(b.Body, schema([]string{"name", "parallelism", "order", "seed"}, header("budget")))
		r, at := &reader{l: l}, l.basics()
		if n, given := r.text(l.field(content, "name", at)); given {
			title = n
		}
		if n, given := r.int(l.field(content, "parallelism", at), 1); given {
			run.Parallelism = int(n)
		}
		if o, given := r.oneOf(l.field(content, "order", at), orders()...); given {
			run.Order = plan.Order(o)
		}
		const least = -1 << 63
		if n, given := r.int(l.field(content, "seed", at), least); given {
			run.Seed = n
		}
		if budget := l.single(content, "budget"); budget != nil {
			inner := l.content(budget.Body, schema([]string{"wall", "failures"}))
			run.BudgetWall, _ = r.duration(l.field(inner, "wall", at))
			if share, given := r.share(l.field(inner, "failures", at)); given {
				run.BudgetFailures = &share
			}
		}
	}
	l.overrideRun(&run)
	return title, run
}

// defaultName is the name of the first file or folder.
func (l *loader) defaultName() string {
	if len(l.order) != 1 {
		return filepath.Base(l.root)
	}
	file := filepath.Base(l.order[0].name)
	return strings.TrimSuffix(strings.TrimSuffix(file, ".json"), ".hcl")
}

func orders() []string {
	return []string{string(plan.OrderInterleaved), string(plan.OrderRandom), string(plan.OrderSequential)}
}

// overrideRun applies the command line. Its values have no place in a file.
func (l *loader) overrideRun(run *plan.Settings) {
	o := l.opts
	if o.Parallelism > 0 {
		run.Parallelism = o.Parallelism
	}
	if o.Seed != nil {
		run.Seed = *o.Seed
	}
	if o.Order != "" {
		run.Order = plan.Order(o.Order)
		l.checkWord("--order", o.Order, orders())
	}
	if o.KeepWorkspaces != "" {
		l.checkWord("--keep-workspaces", o.KeepWorkspaces, []string{shared.KeepNever, shared.KeepOnFailure, shared.KeepAlways})
	}
}

func (l *loader) checkWord(flag, word string, words []string) {
	for _, w := range words {
		if w == word {
			return
		}
	}
	l.fail(nil, "Value cannot be used", fmt.Sprintf("%s is %q; it must be one of %s.%s", flag, word, strings.Join(words, ", "), suggest(word, words)))
}
