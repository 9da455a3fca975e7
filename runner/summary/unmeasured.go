package summary

import (
	"regexp"
	"strings"

	"cellharness/shared"
)

// Unmeasured is cells that were not measured for one reason.
type Unmeasured struct {
	Status  shared.Status `json:"status"`
	Cause   shared.Cause  `json:"cause"`   // empty unless the status is error
	Message string        `json:"message"` // of the first of them
	Cells   []string      `json:"cells"`   // addresses, in the order of the plan
}

// varying matches what differs between messages of one kind: ULIDs, hashes, and numbers of four digits and more, such
// as process ids and ports. Shorter numbers stay, since exit status 1 and exit status 2 are two reasons.
var varying = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{7,}\b|[0-9]{4,}`)

// kindOf strips from a message what speaks of its cell alone, so that one reason is told once however many cells it
// has cost.
func kindOf(o outcome) string {
	own := strings.NewReplacer(o.cell.Address, "*", o.cell.Key, "*")
	return varying.ReplaceAllString(own.Replace(o.result.Message), "*")
}

func unmeasured(all []outcome) []Unmeasured {
	type reason struct {
		status shared.Status
		cause  shared.Cause
		kind   string
	}
	out := []Unmeasured{}
	at := map[reason]int{}
	for _, o := range all {
		if o.status.Counts() {
			continue
		}
		key := reason{o.status, o.result.Cause, kindOf(o)}
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			message := o.result.Message
			if o.status == Pending {
				message = "the run has not come to its end"
			}
			out = append(out, Unmeasured{Status: o.status, Cause: o.result.Cause, Message: message})
		}
		out[i].Cells = append(out[i].Cells, o.cell.Address)
	}
	return out
}
