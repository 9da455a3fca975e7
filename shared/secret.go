package shared

import (
	"errors"
	"fmt"
	"log/slog"
)

// ErrSecretMarshalled is returned by every marshaller of a Secret.
var ErrSecretMarshalled = errors.New("a secret cannot be marshalled")

const secretShown = "(sensitive)"

// Secret holds a value that must not be seen. It prints as "(sensitive)" with every verb and refuses to be marshalled;
// the only way to the value is Reveal.
type Secret struct {
	value *string // behind a pointer, because the verb %p prints the fields of a struct and asks no Formatter
}

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal returns the value. Whoever calls it answers for where the value goes.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero tells whether there is no value.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// Format prints the secret as "(sensitive)" for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(secretShown)) }

// String returns "(sensitive)".
func (s Secret) String() string { return secretShown }

// GoString returns "(sensitive)".
func (s Secret) GoString() string { return secretShown }

// LogValue keeps the value out of structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(secretShown) }

// MarshalJSON always fails.
func (s Secret) MarshalJSON() ([]byte, error) { return nil, ErrSecretMarshalled }

// MarshalText always fails.
func (s Secret) MarshalText() ([]byte, error) { return nil, ErrSecretMarshalled }

// MarshalBinary always fails.
func (s Secret) MarshalBinary() ([]byte, error) { return nil, ErrSecretMarshalled }

// GobEncode always fails.
func (s Secret) GobEncode() ([]byte, error) { return nil, ErrSecretMarshalled }
