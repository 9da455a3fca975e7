# The same build on this machine and in Daytona sandboxes, with either of two accounts.
# Needs a Daytona account; the keys come from the environment and are never written down.
# The daytona adapter of this build checks its configuration and makes no sandboxes yet: the plan refuses, with that
# reason, the cells that nothing else can take.
#
#   export DAYTONA_API_KEY=… DAYTONA_ORG=…
#   harness plan config/daytona.hcl                              # who takes which cell, nothing spent
#   harness plan config/daytona.hcl --credentials cloud=nightly  # same definition, other account
#   harness run  config/daytona.hcl --only 'here/**'

harness {
  required_version = ">= 0.1.0"
}

run {
  name        = "where-to-build"
  parallelism = 20
  order       = "random"
  seed        = 11

  budget {
    wall     = "1h"
    failures = "20%"
  }
}

variable "repo_url" {
  type    = string
  default = "https://example.org/r.git"
}

variable "ref" {
  type    = string
  default = "v1.2.0"
}

credentials "daytona" "team" {
  api_key         = secret::env("DAYTONA_API_KEY")
  organization_id = secret::env("DAYTONA_ORG")
  api_url         = "https://app.daytona.io/api"
}

credentials "daytona" "nightly" {
  api_key = secret::exec(["pass", "show", "daytona/nightly"])
  api_url = "https://app.daytona.io/api"
}

adapter "local_worktree" "here" {
  repo            = ".."
  base            = "HEAD"
  env_passthrough = ["PATH", "HOME"]
  max_concurrent  = 2
}

adapter "daytona" "cloud" {
  credentials    = credentials.daytona.team
  snapshot       = "bench-go-1"
  repo_url       = var.repo_url
  ref            = var.ref
  target         = "eu"
  create_timeout = "3m"
  max_concurrent = 50

  network {
    block_all = true
  }
}

# An image lets the size be asked for; a snapshot has its own.
adapter "daytona" "large" {
  credentials    = credentials.daytona.team
  image          = "golang:1.26"
  repo_url       = var.repo_url
  ref            = var.ref
  create_timeout = "10m"
  max_concurrent = 10

  resources {
    cpu    = 4
    memory = "8GiB"
    disk   = "20GiB"
  }
}

task "package" {
  for_each = { all = "./...", core = "./runner/..." }
  params   = { target = each.value }
}

variant "cold" {
  params = { prepare = "true" }
}

variant "warm" {
  params = { prepare = "GOCACHE=$PWD/.gocache go build ./..." }
}

trial "here" {
  adapters = [adapter.local_worktree.here]
  tasks    = values(task.package)
  variants = [variant.cold, variant.warm]
  baseline = variant.cold
  repeat   = 6 # the least number of values that has a 95 % interval for its median

  setup {
    entrypoint = each.variant.params.prepare # a string runs in a shell, a list does not
    timeout    = "10m"
  }

  cell {
    kind       = "exec_cell"
    entrypoint = "GOCACHE=$PWD/.gocache exec go build -o /dev/null ${each.task.params.target}"
    timeout    = "15m"
  }
}

trial "cloud" {
  adapters = [adapter.daytona.cloud]
  tasks    = values(task.package)
  variants = [variant.cold, variant.warm]
  baseline = variant.cold
  repeat   = 6
  warmup   = 1

  setup {
    entrypoint = each.variant.params.prepare
    timeout    = "10m"
  }

  cell {
    kind       = "exec_cell"
    entrypoint = "GOCACHE=$PWD/.gocache exec go build -o /dev/null ${each.task.params.target}"
    timeout    = "15m"

    retry {
      attempts = 3 # a sandbox that cannot be had or goes away; never a build that fails
      backoff  = "10s"
    }
  }
}

# Two candidates, the first that fits: the memory must hold, so this machine takes the cell only where
# its adapter enforces memory, and the larger sandbox takes it otherwise.
trial "roomy" {
  adapters = [adapter.local_worktree.here, adapter.daytona.large]
  tasks    = [task.package["all"]]
  variants = [variant.cold]
  repeat   = 6

  cell {
    kind       = "exec_cell"
    entrypoint = ["go", "build", "-o", "/dev/null", each.task.params.target]
    timeout    = "15m"

    limits {
      memory  = "6GiB"
      require = "enforced"
    }

    requires {
      condition     = each.adapter.capabilities.streaming
      error_message = "Builds take minutes: ${each.adapter.name} shows no output before the end."
    }
  }
}

threshold "warm_is_quick" {
  metric    = metric.wall
  where     = { trial = "cloud", variant = "warm" }
  condition = stat.median < 60
}
