package adaptertest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellharness/shared"
)

func file(data string) entry    { return entry{Mode: modeFile, Data: []byte(data)} }
func program(data string) entry { return entry{Mode: modeProgram, Data: []byte(data)} }
func link(target string) entry  { return entry{Mode: modeLink, Data: []byte(target)} }

func edits() map[string]struct{ from, to tree } {
	return map[string]struct{ from, to tree }{
		"nothing":              {tree{"a": file("x\n")}, tree{"a": file("x\n")}},
		"added":                {tree{}, tree{"d/a": file("x\ny\n")}},
		"added, empty":         {tree{}, tree{"a": file("")}},
		"removed":              {tree{"a": file("x\n")}, tree{}},
		"removed, empty":       {tree{"a": file("")}, tree{}},
		"edited":               {tree{"a": file("1\n2\n3\n4\n")}, tree{"a": file("1\nx\ny\n4\n")}},
		"repeated lines":       {tree{"a": file("x\nx\nx\n")}, tree{"a": file("x\nx\n")}},
		"emptied":              {tree{"a": file("x\n")}, tree{"a": file("")}},
		"filled":               {tree{"a": file("")}, tree{"a": file("x")}},
		"line end lost":        {tree{"a": file("x\ny\n")}, tree{"a": file("x\ny")}},
		"line end gained":      {tree{"a": file("x\ny")}, tree{"a": file("x\ny\n")}},
		"no line end, context": {tree{"a": file("x\ny")}, tree{"a": file("z\ny")}},
		"mode":                 {tree{"a": file("x\n")}, tree{"a": program("x\n")}},
		"mode and data":        {tree{"a": program("x\n")}, tree{"a": file("y\n")}},
		"link":                 {tree{}, tree{"a": link("b/c")}},
		"link elsewhere":       {tree{"a": link("b")}, tree{"a": link("c")}},
		"file to link":         {tree{"a": file("x\n")}, tree{"a": link("b")}},
		"link to file":         {tree{"a": link("b")}, tree{"a": file("x\n")}},
		"file to directory":    {tree{"a": file("x\n")}, tree{"a/b": file("x\n")}},
		"binary":               {tree{"a": file("\x00\xff\n\x00")}, tree{"a": file("\x00\xfe\r\n")}},
		"like a patch":         {tree{"a": file("--- a\n")}, tree{"a": file("+++ b\n@@ -1 +1 @@\ndiff --git a/x b/x\n")}},
		"odd names":            {tree{"q\"\\": file("x\n")}, tree{"b l a n k": file("x\n"), "\xff\n\tü": file("y\n")}},
	}
}

func TestPatch_Applies(t *testing.T) {
	t.Parallel()
	for name, c := range edits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch, sum := makePatch(c.from, c.to)
			if (len(patch) == 0) != (c.from.id() == c.to.id()) || sum.From != c.from.id() || sum.Tree != c.to.id() {
				t.Errorf("the patch has %d bytes and is said to be %+v", len(patch), sum)
			}
			got, err := applyPatch(c.from, patch)
			if err != nil {
				t.Fatalf("apply: %v\n%s", err, patch)
			}
			if diff := cmp.Diff(c.to, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("tree (-want +got):\n%s\n%s", diff, patch)
			}
		})
	}
}

func TestPatch_IsReadByGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git on this machine")
	}
	for name, c := range edits() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch, sum := makePatch(c.from, c.to)
			if len(patch) == 0 {
				return // git refuses an empty patch
			}
			dir := filepath.Join(t.TempDir(), "tree")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := c.from.write(dir); err != nil {
				t.Fatal(err)
			}
			git(t, dir, patch, "apply", "-p1")
			got, _, err := readTree(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.to, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("tree (-want +got):\n%s\n%s", diff, patch)
			}
			stat := git(t, dir, patch, "apply", "--numstat", "-z")
			if n := strings.Count(stat, "\x00"); int64(n) < sum.Files {
				t.Errorf("git counts %d files, %d are said", n, sum.Files)
			}
		})
	}
}

func git(t *testing.T, dir string, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
	cmd.Stdin = strings.NewReader(string(stdin))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s\n%s", args, err, out, stdin)
	}
	return string(out)
}

func TestPatch_Random(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		from, to := randomTree(random), randomTree(random)
		patch, _ := makePatch(from, to)
		got, err := applyPatch(from, patch)
		if err != nil {
			t.Fatalf("apply: %v\n%s", err, patch)
		}
		if diff := cmp.Diff(to, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("tree (-want +got):\n%s\n%s", diff, patch)
		}
	}
}

func randomTree(random *rand.Rand) tree {
	t := tree{}
	for i := range 4 {
		if random.IntN(4) == 0 {
			continue
		}
		var data strings.Builder
		for range random.IntN(6) {
			data.WriteString([]string{"x\n", "y\n", "\n", " \n", "\\\n", "-\n"}[random.IntN(6)])
		}
		data.WriteString([]string{"", "", "end"}[random.IntN(3)])
		t[fmt.Sprintf("f%d", i)] = []entry{file(data.String()), program(data.String())}[random.IntN(2)]
	}
	return t
}

func TestPatch_Counts(t *testing.T) {
	t.Parallel()
	_, got := makePatch(
		tree{"edited": file("1\n2\n3\n"), "removed": file("a\nb\n"), "kept": file("k\n")},
		tree{"edited": file("1\nx\ny\n3\n"), "added": file("n"), "kept": file("k\n")},
	)
	want := shared.Diff{Files: 3, Insertions: 3, Deletions: 3}
	got.Bytes, got.SHA256, got.From, got.Tree = 0, "", "", ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestPatch_Refuses(t *testing.T) {
	t.Parallel()
	patch, _ := makePatch(tree{"a": file("x\n")}, tree{"a": file("y\n")})
	for name, c := range map[string]struct {
		base  tree
		patch string
	}{
		"other content":   {tree{"a": file("z\n")}, string(patch)},
		"missing file":    {tree{}, string(patch)},
		"no patch":        {tree{}, "hello\n"},
		"no name":         {tree{}, "diff --git\n"},
		"escape":          {tree{}, "diff --git a/../x b/../x\nnew file mode 100644\n"},
		"git directory":   {tree{}, "diff --git a/.git/x b/.git/x\nnew file mode 100644\n"},
		"is there":        {tree{"a": file("")}, "diff --git a/a b/a\nnew file mode 100644\n"},
		"without a hunk":  {tree{"a": file("x\n")}, "diff --git a/a b/a\n--- a/a\n+++ b/a\nno\n"},
		"cut in the hunk": {tree{"a": file("x\n")}, strings.TrimSuffix(string(patch), "-x\n+y\n")},
	} {
		if got, err := applyPatch(c.base, []byte(c.patch)); err == nil {
			t.Errorf("%s: the patch gave %v, want an error", name, got)
		}
	}
}
