package adapter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

const canary = "dtn_canary_0123456789abcdef"

func configuration(settings string) shared.Configuration {
	return shared.Configuration{
		Instance: "cloud", Owner: "owner", Settings: []byte(settings),
		Secrets: map[string]shared.Secret{secretAPIKey: shared.NewSecret(canary)},
	}
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	got, err := New().Negotiate(t.Context(), shared.HostInfo{Version: shared.Version, HandleVersions: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	kind, ok := shared.KindByName(shared.Kinds(), got.Name)
	if !ok || kind.Binary != Name {
		t.Errorf("Negotiate names %q, want a registered name", got.Name)
	}
	if !got.Fits || got.Version != shared.Version || got.HandleVersion != HandleVersion {
		t.Errorf("Negotiate = %+v, want a fit of this version", got)
	}
	if !got.Serves(shared.ServiceAdapter) || got.Serves(shared.ServiceWorktree) {
		t.Errorf("services = %v, want the adapter alone", got.Services)
	}
}

func TestCapabilities_ClaimOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	c := capabilities()
	if c.Provisions || c.HostsPromptCells || c.ImageBuild || c.StartsFromPatch {
		t.Errorf("capabilities = %+v, want none of what this build lacks", c)
	}
	if c.ColdStart != shared.ColdStartSeconds || !c.Streaming || c.Transfer != shared.TransferUpload {
		t.Errorf("capabilities = %+v, want seconds, streaming and upload", c)
	}
	for _, d := range shared.Dimensions() {
		if s := c.Limits[d]; s.Level != shared.LevelNone || s.Reason == "" {
			t.Errorf("limit of %s = %+v, want none with a reason", d, s)
		}
	}
}

func TestConfigure_Accepts(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0123456789", 4)
	for name, c := range map[string]struct {
		settings string
		refs     []string
		pins     []shared.Pin
	}{
		"nothing":  {"", nil, []shared.Pin{{}}},
		"empty":    {"{}", nil, []shared.Pin{{}}},
		"snapshot": {`{"snapshot":"bench-go-1","target":"eu","create_timeout":180000000000,"network":{"block_all":true}}`, nil, []shared.Pin{{}}},
		"image":    {`{"image":"golang:1.26","resources":{"cpu":4,"memory":8589934592,"disk":21474836480}}`, nil, []shared.Pin{{}}},
		"tag":      {`{"repo_url":"https://example.org/r.git","ref":"v1.2.0"}`, nil, []shared.Pin{{}}},
		"commits": {
			`{"repo_url":"https://example.org/r.git","ref":"` + commit + `"}`,
			[]string{commit, "feature/x"},
			[]shared.Pin{{Commit: commit}, {Ref: commit, Commit: commit}, {Ref: "feature/x"}},
		},
		"https":         {`{"api_url":"https://daytona.example.org:8443/api"}`, nil, []shared.Pin{{}}},
		"loopback name": {`{"api_url":"http://localhost:3000/api"}`, nil, []shared.Pin{{}}},
		"loopback IPv4": {`{"api_url":"http://127.0.0.1:3000"}`, nil, []shared.Pin{{}}},
		"loopback IPv6": {`{"api_url":"http://[::1]:3000/api"}`, nil, []shared.Pin{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := configuration(c.settings)
			cfg.Refs = c.refs
			got, err := New().Configure(t.Context(), cfg)
			if err != nil {
				t.Fatalf("Configure = %v", err)
			}
			if diff := cmp.Diff(shared.Configured{Capabilities: capabilities(), Pins: c.pins}, got); diff != "" {
				t.Errorf("Configure (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigure_Violations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*shared.Configuration)
		want   []string // fields, in order
		says   string
	}{
		"snapshot with resources": {settingsOf(`{"snapshot":"s","resources":{"cpu":1}}`), []string{"resources"}, "use image instead"},
		"resources alone":         {settingsOf(`{"resources":{"cpu":1}}`), []string{"resources"}, "use image instead"},
		"snapshot with image":     {settingsOf(`{"snapshot":"s","image":"i"}`), []string{"image"}, "one of them"},
		"empty snapshot":          {settingsOf(`{"snapshot":""}`), []string{"snapshot"}, "leave it out"},
		"half a core":             {settingsOf(`{"image":"i","resources":{"cpu":0.5}}`), []string{"resources.cpu"}, "whole number"},
		"no core":                 {settingsOf(`{"image":"i","resources":{"cpu":0}}`), []string{"resources.cpu"}, "at least 1"},
		"odd memory":              {settingsOf(`{"image":"i","resources":{"memory":1000000000}}`), []string{"resources.memory"}, "GiB"},
		"negative disk":           {settingsOf(`{"image":"i","resources":{"disk":-1073741824}}`), []string{"resources.disk"}, "GiB"},
		"no time to create":       {settingsOf(`{"create_timeout":0}`), []string{"create_timeout"}, "3m"},
		"blank in target":         {settingsOf(`{"target":"eu west"}`), []string{"target"}, "blank"},
		"api over http":           {settingsOf(`{"api_url":"http://app.daytona.io/api"}`), []string{"api_url"}, "clear text"},
		"looks like loopback":     {settingsOf(`{"api_url":"http://127.0.0.1.example.org/api"}`), []string{"api_url"}, "clear text"},
		"api without host":        {settingsOf(`{"api_url":"app.daytona.io/api"}`), []string{"api_url"}, "no address"},
		"api by file":             {settingsOf(`{"api_url":"ftp://app.daytona.io/api"}`), []string{"api_url"}, "https"},
		"key in api":              {settingsOf(`{"api_url":"https://` + canary + `@app.daytona.io/api"}`), []string{"api_url"}, "api_key"},
		"key in a broken api":     {settingsOf(`{"api_url":"https://x:` + canary + `/%zz"}`), []string{"api_url"}, "no address"},
		"api with a query":        {settingsOf(`{"api_url":"https://app.daytona.io/api?key=` + canary + `"}`), []string{"api_url"}, "query"},
		"repository by path":      {settingsOf(`{"repo_url":"../r"}`), []string{"repo_url"}, "clone"},
		"password in repository":  {settingsOf(`{"repo_url":"https://u:` + canary + `@example.org/r.git"}`), []string{"repo_url"}, "password"},
		"ref without repository":  {settingsOf(`{"ref":"main"}`), []string{"ref"}, "repo_url"},
		"ref like an option":      {settingsOf(`{"repo_url":"https://example.org/r","ref":"--upload-pack=x"}`), []string{"ref"}, "40 hex"},
		"wrong type":              {settingsOf(`{"resources":{"cpu":"four"}}`), []string{"resources.cpu"}, "float64"},
		"ref of a task": {func(c *shared.Configuration) {
			c.Settings, c.Refs = []byte(`{"repo_url":"https://example.org/r"}`), []string{"main", "a b"}
		}, []string{`ref["a b"]`}, "40 hex"},
		"line break in the key": {func(c *shared.Configuration) {
			c.Secrets[secretAPIKey] = shared.NewSecret(canary + "\nX-Other: 1")
		}, []string{"api_key"}, "line break"},
		"unknown secret": {func(c *shared.Configuration) {
			c.Secrets["password"] = shared.NewSecret(canary)
		}, []string{"password"}, "api_key and organization_id"},
		"all at once, the key too": {func(c *shared.Configuration) {
			c.Secrets = nil
			c.Settings = []byte(`{"snapshot":"s","image":"i","ref":"-x","api_url":"http://example.org"}`)
		}, []string{"api_url", "image", "ref", "api_key"}, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := configuration("{}")
			c.change(&cfg)
			_, err := New().Configure(t.Context(), cfg)
			var refused *shared.Error
			if !errors.As(err, &refused) || refused.Code != shared.CodeInvalid {
				t.Fatalf("Configure = %v, want invalid", err)
			}
			var fields []string
			for _, v := range refused.Violations {
				fields = append(fields, v.Field)
			}
			if diff := cmp.Diff(c.want, fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error = %q, want it to say %q", err, c.says)
			}
			if shown := fmt.Sprintf("%v %+v %#v", err, refused, refused); strings.Contains(shown, "canary") {
				t.Errorf("the error shows a secret: %s", shown)
			}
		})
	}
}

func settingsOf(s string) func(*shared.Configuration) {
	return func(c *shared.Configuration) { c.Settings = []byte(s) }
}

func TestConfigure_UnreadableSettings(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{
		"unknown argument": `{"snapshoot":"s"}`,
		"unknown in block": `{"network":{"allow":[]}}`,
		"no JSON":          `snapshot`,
		"cut short":        `{"snapshot":"s"`,
		"two values":       `{} {}`,
		"an array":         `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := New().Configure(t.Context(), configuration(settings)); !errors.Is(err, shared.ErrInvalid) {
				t.Errorf("Configure(%s) = %v, want invalid", settings, err)
			}
		})
	}
}

// The schema that the host checks against and the struct that the adapter decodes into are two lists of one thing.
func TestSettings_FollowTheRegistry(t *testing.T) {
	t.Parallel()
	kind, _ := shared.KindByName(shared.Kinds(), Name)
	sample := map[shared.SettingType]string{
		shared.SettingString: `"x"`, shared.SettingNumber: `1`, shared.SettingBool: `true`,
		shared.SettingDuration: `1`, shared.SettingSize: `1`,
	}
	accepts := func(t *testing.T, s shared.Setting, wrap string) {
		t.Helper()
		value, ok := sample[s.Type]
		if !ok {
			t.Fatalf("setting %s has a type that this adapter does not know", s.Name)
		}
		text := fmt.Sprintf(wrap, fmt.Sprintf("{%q:%s}", s.Name, value))
		if _, err := decodeSettings([]byte(text)); err != nil {
			t.Errorf("decodeSettings(%s) = %v", text, err)
		}
	}
	for _, s := range append(kind.Settings.Settings, kind.Credentials.Settings...) {
		if !s.Host && s.Type != shared.SettingSecret {
			accepts(t, s, "%s")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kind.Settings.Blocks)) {
		for _, s := range kind.Settings.Blocks[name].Settings {
			accepts(t, s, fmt.Sprintf("{%q:%%s}", name))
		}
	}
}

func TestConfigure_WithoutAKey(t *testing.T) {
	t.Parallel()
	cfg := configuration("{}")
	cfg.Secrets = nil
	_, err := New().Configure(t.Context(), cfg)
	if !errors.Is(err, shared.ErrUnauthenticated) || !errors.Is(err, shared.OfCause(shared.CauseAuth)) {
		t.Errorf("Configure = %v, want unauthenticated", err)
	}
	for _, says := range []string{`"cloud"`, "credentials", "api_key"} {
		if !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("error = %q, want it to say %s", err, says)
		}
	}
}

// TestConfigure_IgnoresTheEnvironment is not parallel: the environment belongs to the whole process.
func TestConfigure_IgnoresTheEnvironment(t *testing.T) {
	for _, name := range []string{
		"DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN", "DAYTONA_ORGANIZATION_ID", "DAYTONA_API_URL", "DAYTONA_SERVER_URL",
		"DAYTONA_TARGET",
	} {
		t.Setenv(name, canary)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile(".env", []byte("DAYTONA_API_KEY="+canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := configuration("{}")
	cfg.Secrets = nil
	if _, err := New().Configure(t.Context(), cfg); !errors.Is(err, shared.ErrUnauthenticated) {
		t.Errorf("Configure = %v, want the key to be missing", err)
	}
}

func TestConfigure_OnlyOnce(t *testing.T) {
	t.Parallel()
	a := New()
	bad := configuration(`{"target":""}`)
	if _, err := a.Configure(t.Context(), bad); !errors.Is(err, shared.ErrInvalid) {
		t.Fatalf("Configure = %v, want invalid", err)
	}
	if _, err := a.Configure(t.Context(), configuration("{}")); err != nil {
		t.Errorf("Configure after a refused one = %v", err)
	}
	if _, err := a.Configure(t.Context(), configuration("{}")); !errors.Is(err, shared.ErrPrecondition) {
		t.Errorf("second Configure = %v, want refused", err)
	}
}

func TestAdapter_KeepsNoKey(t *testing.T) {
	t.Parallel()
	a := New()
	if _, err := a.Configure(t.Context(), configuration("{}")); err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%+v %#v", a, a); strings.Contains(shown, canary) {
		t.Errorf("the adapter shows the key: %s", shown)
	}
}

func TestRemoteLegs_AreNotInThisBuild(t *testing.T) {
	t.Parallel()
	a := New()
	for name, call := range map[string]func(context.Context) error{
		"Provision": func(ctx context.Context) error {
			_, err := a.Provision(ctx, shared.ProvisionSpec{Lease: "x"})
			return err
		},
		"RunCell": func(ctx context.Context) error {
			_, err := a.RunCell(ctx, shared.Handle{}, shared.Cell{}, func(shared.Event) error { return nil })
			return err
		},
		"Collect": func(ctx context.Context) error {
			_, err := a.Collect(ctx, shared.Handle{}, shared.CollectSpec{}, nil)
			return err
		},
		"Teardown": func(ctx context.Context) error {
			_, err := a.Teardown(ctx, shared.Handle{})
			return err
		},
		"Find": func(ctx context.Context) error {
			_, err := a.Find(ctx, shared.Labels{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := call(t.Context())
			if !errors.Is(err, shared.ErrNotImplemented) || !strings.Contains(fmt.Sprint(err), "remote sandboxes are not in it yet") {
				t.Errorf("%s = %v, want not implemented", name, err)
			}
		})
	}
	if got, err := a.Drain(t.Context(), time.Second); err != nil || got != (shared.DrainReport{}) {
		t.Errorf("Drain = %+v, %v; want nothing to drain", got, err)
	}
}

// Selection reads capabilities alone, so every cell is refused before anything is spent, and the next candidate gets it.
func TestSelect_PlacesNothingHere(t *testing.T) {
	t.Parallel()
	here := shared.Candidate{Instance: "here", Capabilities: shared.Capabilities{Provisions: true, HostsPromptCells: true}}
	cloud := shared.Candidate{Instance: "cloud", Capabilities: capabilities()}
	for name, c := range map[string]struct {
		kind shared.CellKind
		says string
	}{
		"exec":   {shared.ExecCell, "makes no workspaces"},
		"prompt": {shared.PromptCell, "does not host prompt cells"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shared.Select(shared.Needs{Kind: c.kind}, []shared.Candidate{cloud})
			if !errors.Is(err, shared.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("Select = %v, want unsupported because it %s", err, c.says)
			}
			if i, err := shared.Select(shared.Needs{Kind: c.kind}, []shared.Candidate{cloud, here}); i != 1 || err != nil {
				t.Errorf("Select = %d, %v; want the second candidate", i, err)
			}
		})
	}
}
