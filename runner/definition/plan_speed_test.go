package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"cellharness/runner/definition"
)

// large is a definition of tasks x 2 variants x 5 repetitions.
func large(tasks int) string {
	return fmt.Sprintf(`
adapter "local_worktree" "here" {
  repo = "."
}
task "t" {
  for_each    = { for i in flatten([for a in range(%d) : [for b in range(100) : a * 100 + b]]) : "n${i}" => i }
  prompt      = "Do ${each.key}"
  seed_inputs = { "in.json" = jsonencode({ n = each.value }) }
  params      = { n = each.value }
}
variant "a" {
  params = { argv = ["true"] }
}
variant "b" {
  params = { argv = ["false"] }
}
trial "x" {
  adapters = [adapter.local_worktree.here]
  tasks    = values(task.t)
  variants = [variant.a, variant.b]
  repeat   = 5
  exclude {
    when = each.variant.name == "c"
  }
  cell {
    kind       = "exec_cell"
    entrypoint = concat(each.variant.params.argv, ["${each.task.params.n}", "${each.repeat}"])
    stdin      = each.task.prompt
    timeout    = "30s"
    env        = { A = "${each.task.key}" }
    limits {
      memory = "1GiB"
    }
    requires {
      condition     = each.adapter.capabilities.streaming
      error_message = "no"
    }
  }
  verify {
    entrypoint = ["test", "-e", each.task.name]
    pass       = result.exit_code == 0 && each.repeat > 0
  }
}
`, tasks/100)
}

// BenchmarkPlan makes 10,000 cells, once with commands that differ by task and variant only, as is usual, and once with
// commands that differ by repetition as well, so that nothing is evaluated for two cells at once.
func BenchmarkPlan(b *testing.B) {
	alike := strings.NewReplacer(`, "${each.repeat}"`, "", " && each.repeat > 0", "").Replace(large(1000))
	for name, src := range map[string]string{"repetitions alike": alike, "every cell differs": large(1000)} {
		b.Run(name, func(b *testing.B) {
			file := definitionOf(b, src)
			for b.Loop() {
				d, diags := definition.Load([]string{file}, definition.Options{})
				if diags.HasErrors() {
					b.Fatal(diags)
				}
				if _, _, diags := d.Plan(nil); diags.HasErrors() {
					b.Fatal(diags)
				}
			}
		})
	}
}
