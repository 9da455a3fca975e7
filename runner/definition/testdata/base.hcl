adapter "local_worktree" "here" {
  repo = "."
}

task "t" {
  prompt = "go"
}

variant "v" {}
