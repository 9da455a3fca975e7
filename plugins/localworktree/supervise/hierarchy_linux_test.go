package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHierarchyIsFound(t *testing.T) {
	t.Parallel()
	all := []mount{
		{root: "/", point: "/sys/fs/cgroup/cpu,cpuacct", kind: "cgroup", options: []string{"rw", "cpu", "cpuacct"}},
		{root: "/docker/x", point: "/sys/fs/cgroup/pids", kind: "cgroup", options: []string{"rw", "pids"}},
		{root: "/", point: "/elsewhere", kind: "tmpfs", options: []string{"rw"}},
	}
	memberships := []byte("3:cpu,cpuacct:/user/a\n2:pids:/docker/x/y\n1:memory:/\n0::/user/a\n")
	for _, tc := range []struct {
		controller string
		want       hierarchy
		found      bool
	}{
		{"cpu", hierarchy{1, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user/a"}, true},
		{"pids", hierarchy{1, "/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/y"}, true},
		{"memory", hierarchy{}, false},
	} {
		got, found := findHierarchy(all, memberships, 1, tc.controller)
		if got != tc.want || found != tc.found {
			t.Errorf("%s: %+v, %t", tc.controller, got, found)
		}
	}
}

// TestHierarchyOfVersion2 uses directories that look like control groups.
func TestHierarchyOfVersion2(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		files map[string]string
		base  string
		want  string // part of the error
	}{
		{"own group hands on", map[string]string{"a/b/cgroup.subtree_control": "memory pids\n"}, "a/b", ""},
		{"the group above", map[string]string{
			"a/cgroup.subtree_control": "cpu memory\n", "a/b/cgroup.subtree_control": "\n",
			"a/b/memory.max": "max\n", "a/b/cpu.max": "max 100000\n",
		}, "a", ""},
		{"a limit is not left", map[string]string{"a/cgroup.subtree_control": "memory\n", "a/b/memory.max": "1073741824\n"}, "", "limits of its own"},
		{"nobody", map[string]string{"cgroup.subtree_control": "pids\n"}, "", `hands the controller "memory" on`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			if err := os.MkdirAll(filepath.Join(top, "a/b"), 0o700); err != nil {
				t.Fatal(err)
			}
			tc.files["cgroup.controllers"] = "cpu memory pids\n"
			for name, text := range tc.files {
				if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h, found := findHierarchy([]mount{{root: "/", point: top, kind: "cgroup2"}}, []byte("0::/a/b\n"), 2, "memory")
			if !found || h.dir != filepath.Join(top, "a/b") {
				t.Fatalf("hierarchy is %+v, %t", h, found)
			}
			base, err := h.base("memory")
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error is %v", err)
				}
				return
			}
			if err != nil || base != filepath.Join(top, tc.base) {
				t.Errorf("base is %q, error %v", base, err)
			}
		})
	}
}

func TestEventsAreCounted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(path, []byte("oom 2\noom_kill 1\nmax 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]int64{"oom_kill": 1, "max": 7} {
		if got, err := count(f, name); got != want || err != nil {
			t.Errorf("%s is %d, error %v", name, got, err)
		}
	}
	if _, err := count(f, "kill"); err == nil {
		t.Error("a name that is not there is counted")
	}
}

func TestUnescape(t *testing.T) {
	t.Parallel()
	got := []string{unescape(`/plain`), unescape(`/with\040blank`), unescape(`/back\134slash`), unescape(`/end\04`)}
	if want := []string{"/plain", "/with blank", `/back\slash`, `/end\04`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
