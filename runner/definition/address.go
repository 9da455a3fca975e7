package definition

import "regexp"

// plain is the text of an axis value that stands in an address as it is; any other is quoted, so that no value can be
// taken for a part of the address.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.:+-]+$`)

func addressText(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return quote(text)
}

// MatchAddress tells whether a glob matches an address. `*` stands for any text without a slash, `**` for any text; every
// other character stands for itself, [ included, since addresses hold it. A slash in a quoted key or value is no
// separator. An address always matches itself.
func MatchAddress(glob, address string) bool {
	if glob == address {
		return true
	}
	quoted := insideQuotes(address)
	// reach[j]: whether the rest of the glob matches address[j:]. A table keeps many stars from taking for ever.
	reach := make([]bool, len(address)+1)
	reach[len(address)] = true
	for i := len(glob) - 1; i >= 0; i-- {
		next := make([]bool, len(address)+1)
		deep := glob[i] == '*' && i > 0 && glob[i-1] == '*'
		if deep {
			i--
		}
		for j := len(address); j >= 0; j-- {
			switch {
			case glob[i] != '*':
				next[j] = j < len(address) && address[j] == glob[i] && reach[j+1]
			case j < len(address) && (deep || address[j] != '/' || quoted[j]):
				next[j] = reach[j] || next[j+1]
			default:
				next[j] = reach[j]
			}
		}
		reach = next
	}
	return reach[0]
}

// insideQuotes tells for every byte whether it is inside a quoted part.
func insideQuotes(address string) []bool {
	out := make([]bool, len(address))
	inside := false
	for i := 0; i < len(address); i++ {
		out[i] = inside
		switch {
		case inside && address[i] == '\\' && i+1 < len(address):
			i++
			out[i] = true
		case address[i] == '"':
			inside = !inside
		}
	}
	return out
}

// selects tells whether a cell is asked for on at least one of its candidates.
func (l *loader) selects(p pending) bool {
	if len(l.opts.Only)+len(l.opts.Skip) == 0 {
		return true
	}
	for _, i := range p.combination.candidates {
		if l.selected(cellAddress(p, i)) {
			return true
		}
	}
	return false
}

func (l *loader) selected(address string) bool {
	for _, glob := range l.opts.Skip {
		if MatchAddress(glob, address) {
			return false
		}
	}
	for _, glob := range l.opts.Only {
		if MatchAddress(glob, address) {
			return true
		}
	}
	return len(l.opts.Only) == 0
}
