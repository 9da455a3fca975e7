package adaptertest

import (
	"strings"
	"testing"

	"cellharness/shared"
)

func TestSubject_Check(t *testing.T) {
	t.Parallel()
	whole := Subject{
		Name: "x", New: func(*testing.T) (shared.Adapter, shared.Configuration) { return nil, shared.Configuration{} },
		BadSettings: []byte("{}"), BadField: "root", Skip: map[string]string{"negotiate": "a reason"},
	}
	if err := whole.check(); err != nil {
		t.Errorf("check of a whole subject: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*Subject)
		want   string
	}{
		"no name":         {func(s *Subject) { s.Name = "" }, "Name"},
		"no adapter":      {func(s *Subject) { s.New = nil }, "New"},
		"no bad settings": {func(s *Subject) { s.BadSettings = nil }, "BadSettings"},
		"unknown case":    {func(s *Subject) { s.Skip = map[string]string{"negotiat": "a reason"} }, `"negotiat"`},
	} {
		s := whole
		c.change(&s)
		if err := s.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: check = %v, want an error that names %s", name, err, c.want)
		}
	}
}

func TestCases_AreNamedOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range cases() {
		if seen[c.name] {
			t.Errorf("two cases are named %s", c.name)
		}
		seen[c.name] = true
	}
}
