package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"cellharness/runner/definition"
	"cellharness/runner/event"
	"cellharness/runner/plan"
	"cellharness/runner/pluginhost"
	"cellharness/runner/secrets"
	"cellharness/shared"
)

// definitionFlags are the flags of every command that reads a definition.
type definitionFlags struct {
	vars        []string
	varFiles    []string
	only, skip  []string
	repeat      int
	parallelism int
	order       string
	seed        int64
	profiles    []string
	keep        bool
	json        bool
}

func (f *definitionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.vars, "var", nil, "set a variable: `NAME=VALUE`; a value of another type than string is an HCL expression")
	flags.StringArrayVar(&f.varFiles, "var-file", nil, "read variables from a `FILE`")
	flags.StringArrayVar(&f.only, "only", nil, "keep the cells whose address matches the `GLOB`, such as 'solve/**'")
	flags.StringArrayVar(&f.skip, "skip", nil, "leave out the cells whose address matches the `GLOB`")
	flags.IntVar(&f.repeat, "repeat", 0, "repeat every combination `N` times, whatever the definition says")
	flags.IntVar(&f.parallelism, "parallelism", 0, "run `N` cells at once, whatever the definition says")
	flags.StringVar(&f.order, "order", "", "`ORDER` of the cells: interleaved, random or sequential")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the order")
	flags.StringArrayVar(&f.profiles, "credentials", nil, "use a credentials profile for an adapter: `INSTANCE=PROFILE`")
	flags.BoolVar(&f.json, "json", false, "print JSON lines on stdout")
}

func (f *definitionFlags) options(a *app, cmd *cobra.Command) (definition.Options, error) {
	opts := definition.Options{
		VarFiles: f.varFiles, LookupEnv: a.lookup, Only: f.only, Skip: f.skip, Repeat: f.repeat,
		Parallelism: f.parallelism, Order: f.order,
	}
	if cmd.Flags().Changed("repeat") && f.repeat < 1 {
		return opts, fail(exitUsage, fmt.Errorf("--repeat is %d; at least 1 is needed", f.repeat))
	}
	if cmd.Flags().Changed("parallelism") && f.parallelism < 1 {
		return opts, fail(exitUsage, fmt.Errorf("--parallelism is %d; at least 1 is needed", f.parallelism))
	}
	if cmd.Flags().Changed("seed") {
		opts.Seed = &f.seed
	}
	if f.keep {
		opts.KeepWorkspaces = shared.KeepAlways
	}
	var err error
	if opts.Vars, err = pairs("--var", "NAME=VALUE", f.vars); err != nil {
		return opts, err
	}
	opts.Profiles, err = a.credentialChoices(f.profiles)
	return opts, err
}

// credentialsEnv is the prefix of the variables that choose a credentials profile: HARNESS_CREDENTIALS_cloud=team.
const credentialsEnv = "HARNESS_CREDENTIALS_"

// credentialChoices reads the profiles that were chosen outside the definition; the flag wins over the environment.
func (a *app) credentialChoices(flags []string) (map[string]string, error) {
	chosen := map[string]string{}
	for _, kv := range a.environ {
		name, profile, _ := strings.Cut(kv, "=")
		if instance, ok := strings.CutPrefix(name, credentialsEnv); ok && profile != "" {
			chosen[instance] = profile
		}
	}
	given, err := pairs("--credentials", "INSTANCE=PROFILE", flags)
	for instance, profile := range given {
		chosen[instance] = profile
	}
	return chosen, err
}

func pairs(flag, form string, values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fail(exitUsage, fmt.Errorf("%s %q is not of the form %s", flag, v, form))
		}
		out[name] = value
	}
	return out, nil
}

// load reads the definition and prints what is wrong with it.
func (a *app) load(paths []string, opts definition.Options, out *output) (*definition.Definition, error) {
	def, diags := definition.Load(paths, opts)
	out.diagnostics(diags)
	if diags.HasErrors() {
		return nil, fail(exitDefinition, nil)
	}
	return def, nil
}

// start launches and configures every adapter instance that the definition needs, all at once. What is wrong with a
// setting is a fault of the definition; an adapter that cannot be had is a fact that the plan weighs.
func (a *app) start(ctx context.Context, def *definition.Definition, host *pluginhost.Host, owner string) (map[string]definition.Fact, definition.Diagnostics) {
	instances := def.Instances()
	facts := make([]definition.Fact, len(instances))
	violations := make([]definition.Diagnostics, len(instances))
	var group sync.WaitGroup
	for i, in := range instances {
		group.Go(func() {
			fact, err := a.startOne(ctx, host, in, owner)
			var e *shared.Error
			switch {
			case errors.As(err, &e) && len(e.Violations) > 0:
				violations[i] = def.Violations(in.Name, e.Violations)
			case err != nil:
				// The plan says of which adapter it speaks.
				fact.Unavailable = strings.TrimPrefix(err.Error(), "adapter "+in.Address+": ")
			}
			facts[i] = fact
		})
	}
	group.Wait()
	byName := map[string]definition.Fact{}
	var all definition.Diagnostics
	for i, in := range instances {
		byName[in.Name] = facts[i]
		all = append(all, violations[i]...)
	}
	return byName, all
}

func (a *app) startOne(ctx context.Context, host *pluginhost.Host, in definition.Instance, owner string) (definition.Fact, error) {
	cfg := shared.Configuration{
		Instance: in.Name, Owner: owner, Settings: in.Settings, Refs: in.Refs,
		Secrets: map[string]shared.Secret{}, Environment: map[string]string{},
	}
	for _, ref := range in.Secrets {
		secret, err := secrets.Resolve(ctx, ref, a.lookup)
		if err != nil {
			return definition.Fact{}, fmt.Errorf("credentials %q for adapter %s: %w", in.Profile, in.Address, err)
		}
		cfg.Secrets[ref.Name] = secret
	}
	for _, name := range in.Environment {
		if value, ok := a.lookup(name); ok {
			cfg.Environment[name] = value
		}
	}
	process, err := host.Start(ctx, pluginhost.Instance{Name: in.Name, Kind: in.Kind, Configuration: cfg})
	if err != nil {
		return definition.Fact{}, err
	}
	configured := process.Configured()
	return definition.Fact{
		Capabilities: configured.Capabilities, Version: process.Description().Version, Digest: process.Digest(),
		Pins: configured.Pins, Notices: configured.Notices, Source: configured.Source,
	}, nil
}

// refusals prints why cells cannot be placed, once for each reason.
func (a *app) refusals(p *plan.Plan, out *output) (refused int) {
	byReason := map[string][]string{}
	var order []string
	for _, c := range p.Cells {
		if c.Refused == "" {
			continue
		}
		refused++
		if byReason[c.Refused] == nil {
			order = append(order, c.Refused)
		}
		byReason[c.Refused] = append(byReason[c.Refused], c.Address)
	}
	for _, reason := range order {
		cells := byReason[reason]
		subject := cells[0]
		if len(cells) > 1 {
			subject = fmt.Sprintf("%d cells, such as %s", len(cells), cells[0])
		}
		out.event(&event.Diagnostic{Severity: "error", Summary: "No adapter can take " + subject, Detail: reason, Address: cells[0]})
	}
	return refused
}
