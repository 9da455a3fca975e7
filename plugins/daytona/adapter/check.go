package adapter

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"cellharness/shared"
)

// Names of the secrets of a credentials block.
const (
	secretAPIKey       = "api_key"
	secretOrganization = "organization_id"
)

const gibibyte = 1 << 30

// commitID is what Daytona takes for a commit; anything else it takes for a branch or a tag.
var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// violations collects what cannot be accepted. No message repeats a secret, or an address that may hold one.
type violations []shared.Violation

func (v *violations) add(field, format string, args ...any) {
	*v = append(*v, shared.Violation{Field: field, Message: fmt.Sprintf(format, args...)})
}

func check(s settings, cfg shared.Configuration) error {
	var v violations
	v.checkSecrets(cfg.Secrets)
	v.checkAPIURL(s.APIURL)
	v.checkSource(s)
	v.checkResources(s)
	v.checkRepository(s, cfg.Refs)
	v.checkWord("target", s.Target)
	if s.CreateTimeout != nil && *s.CreateTimeout <= 0 {
		v.add("create_timeout", "has to be more than nothing, such as \"3m\"")
	}
	if len(v) == 0 && cfg.Secrets[secretAPIKey].IsZero() {
		return &shared.Error{
			Code: shared.CodeUnauthenticated, Cause: shared.CauseAuth,
			Message: fmt.Sprintf("adapter %q has no key of a Daytona account: write a credentials \"daytona\" block with "+
				"api_key = secret::env(\"NAME\") and name it in the adapter block; no variable is read by itself", cfg.Instance),
		}
	}
	if len(v) == 0 {
		return nil
	}
	if cfg.Secrets[secretAPIKey].IsZero() {
		v.add(secretAPIKey, "is missing")
	}
	return &shared.Error{
		Code: shared.CodeInvalid, Violations: v,
		Message: fmt.Sprintf("the configuration of adapter %q cannot be accepted", cfg.Instance),
	}
}

func (v *violations) checkSecrets(secrets map[string]shared.Secret) {
	names := make([]string, 0, len(secrets))
	for name := range secrets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case name != secretAPIKey && name != secretOrganization:
			v.add(name, "is no secret of a Daytona account; there are %s and %s", secretAPIKey, secretOrganization)
		case !isWord(secrets[name].Reveal()):
			// A line break would end the header that the value goes into.
			v.add(name, "holds a blank, a line break or another character that cannot be sent")
		}
	}
}

// isWord tells whether s is free of blanks and of characters that do not print.
func isWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

func (v *violations) checkWord(field string, s *string) {
	switch {
	case s == nil:
	case *s == "":
		v.add(field, "is empty; leave it out instead")
	case !isWord(*s):
		v.add(field, "holds a blank or a character that does not print")
	}
}

// checkAPIURL keeps the key off the wire in clear text, except to this machine.
func (v *violations) checkAPIURL(s *string) {
	const field = "api_url"
	if s == nil {
		return
	}
	u, err := url.Parse(*s)
	switch {
	case err != nil || u.Host == "":
		v.add(field, "is no address; it looks like https://app.daytona.io/api")
	case u.User != nil:
		v.add(field, "holds a user or a password; the key belongs into api_key")
	case u.RawQuery != "" || u.Fragment != "":
		v.add(field, "ends in a query or a fragment; the paths of the API are put behind it")
	case u.Scheme == "https" || (u.Scheme == "http" && isLoopback(u.Hostname())):
	case u.Scheme == "http":
		v.add(field, "would send the key in clear text; use https (http is for this machine only)")
	default:
		v.add(field, "is no https address")
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && addr.IsLoopback())
}

// checkSource checks what sandboxes are made from.
func (v *violations) checkSource(s settings) {
	v.checkWord("snapshot", s.Snapshot)
	v.checkWord("image", s.Image)
	if s.Snapshot != nil && s.Image != nil {
		v.add("image", "cannot stand beside snapshot: a sandbox is made from one of them")
	}
}

// checkResources refuses a size that the service would drop or answer with an error.
func (v *violations) checkResources(s settings) {
	r := s.Resources
	if r == nil {
		return
	}
	if s.Image == nil {
		v.add("resources", "a sandbox made from a snapshot takes its size from the snapshot; use image instead, "+
			"or drop the resources block")
	}
	if r.CPU != nil && (*r.CPU < 1 || *r.CPU != math.Trunc(*r.CPU)) {
		v.add("resources.cpu", "has to be a whole number of cores, at least 1")
	}
	v.checkGibibytes("resources.memory", r.Memory)
	v.checkGibibytes("resources.disk", r.Disk)
}

func (v *violations) checkGibibytes(field string, size *int64) {
	if size != nil && (*size < gibibyte || *size%gibibyte != 0) {
		v.add(field, "has to be a whole number of GiB, at least \"1GiB\"")
	}
}

func (v *violations) checkRepository(s settings, refs []string) {
	if s.RepoURL != nil {
		v.checkRepoURL(*s.RepoURL)
	}
	if s.Ref != nil {
		v.checkRef("ref", *s.Ref, s.RepoURL)
	}
	for _, ref := range refs {
		v.checkRef(fmt.Sprintf("ref[%q]", ref), ref, s.RepoURL)
	}
}

func (v *violations) checkRepoURL(s string) {
	const field = "repo_url"
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		v.add(field, "is no address that a sandbox can clone from; it looks like https://example.org/r.git")
	case u.User != nil:
		v.add(field, "holds a user or a password, which would be in every record; use an address without them")
	}
}

func (v *violations) checkRef(field, ref string, repoURL *string) {
	switch {
	case ref == "" || strings.HasPrefix(ref, "-") || !isWord(ref):
		v.add(field, "is no commit (40 hex digits), branch or tag")
	case text(repoURL) == "":
		v.add(field, "says what to check out, and there is no repo_url to check it out from")
	}
}

// pins says which refs are commits by themselves. What a branch or a tag stands for is not asked in this build.
func pins(s settings, refs []string) []shared.Pin {
	out := []shared.Pin{{Commit: commitOf(text(s.Ref))}}
	for _, ref := range refs {
		out = append(out, shared.Pin{Ref: ref, Commit: commitOf(ref)})
	}
	return out
}

func commitOf(ref string) string {
	if commitID.MatchString(ref) {
		return ref
	}
	return ""
}
