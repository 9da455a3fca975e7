package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"cellharness/shared"
)

// settings is Configuration.Settings, as the registry describes the kind. A pointer is nil where nothing was said.
type settings struct {
	APIURL        *string        `json:"api_url"` // of the credentials block
	Snapshot      *string        `json:"snapshot"`
	Image         *string        `json:"image"`
	RepoURL       *string        `json:"repo_url"`
	Ref           *string        `json:"ref"`
	Target        *string        `json:"target"`
	CreateTimeout *time.Duration `json:"create_timeout"`
	Resources     *resources     `json:"resources"`
	Network       *network       `json:"network"`
}

// resources are the size of a sandbox.
type resources struct {
	CPU    *float64 `json:"cpu"`    // cores
	Memory *int64   `json:"memory"` // bytes
	Disk   *int64   `json:"disk"`   // bytes
}

type network struct {
	BlockAll bool `json:"block_all"`
}

// decodeSettings refuses whatever it does not know: an argument that is ignored is a lie about what was measured.
func decodeSettings(data []byte) (settings, error) {
	var s settings
	if len(data) == 0 {
		return s, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	if err == nil && !errors.Is(dec.Decode(new(json.RawMessage)), io.EOF) {
		err = errors.New("there is more than one JSON value")
	}
	if err == nil {
		return s, nil
	}
	refused := &shared.Error{Code: shared.CodeInvalid, Message: "the settings of the daytona adapter cannot be read"}
	var wrongType *json.UnmarshalTypeError
	if !errors.As(err, &wrongType) {
		// The text of other errors names a field or a place, never a value.
		refused.Message += ": " + err.Error()
		return settings{}, refused
	}
	refused.Violations = []shared.Violation{{
		Field: wrongType.Field, Message: "has to be a JSON value of the type " + wrongType.Type.String(),
	}}
	return settings{}, refused
}

// text is what a pointer says, empty where nothing was said.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
