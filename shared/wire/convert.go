package wire

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// A converter never guesses: what the contract does not know is noted in its breach, and the caller drops the message.

// breach holds the first thing of a message that breaks the contract.
type breach struct{ err error }

func (b *breach) add(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// missing notes a message that has to be there.
func (b *breach) missing(absent bool, what string) {
	if absent {
		b.add("%s is missing", what)
	}
}

// asError returns what was noted as an error of the given code, nil where nothing was.
func (b *breach) asError(code shared.Code) error {
	if b.err == nil || isOurs(b.err) {
		return b.err
	}
	return breachOf(code, "%w", b.err)
}

// breachOf returns an error of the cause protocol.
func breachOf(code shared.Code, format string, args ...any) error {
	return &shared.Error{
		Code: code, Cause: shared.CauseProtocol,
		Message: "the other side broke the contract: " + fmt.Errorf(format, args...).Error(),
	}
}

// enum pairs the values of a Go type with those of its wire form.
type enum[G comparable, P protoreflect.Enum] []struct {
	value G
	wire  P
}

func toEnum[G comparable, P interface {
	comparable
	protoreflect.Enum
}](b *breach, table enum[G, P], value G) P {
	for _, pair := range table {
		if pair.value == value {
			return pair.wire
		}
	}
	b.add("%T has no value %v", value, value)
	var none P
	return none
}

func fromEnum[G comparable, P interface {
	comparable
	protoreflect.Enum
}](b *breach, table enum[G, P], wire P) G {
	for _, pair := range table {
		if pair.wire == wire {
			return pair.value
		}
	}
	b.add("%s has no value %d here", wire.Descriptor().FullName(), wire.Number())
	var none G
	return none
}

// text makes a text for people valid UTF-8, which strings on the wire have to be.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func toDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func fromDuration(b *breach, m *durationpb.Duration) time.Duration {
	if m == nil {
		return 0
	}
	if err := m.CheckValid(); err != nil {
		b.add("a duration is malformed: %w", err)
	}
	return m.AsDuration()
}

func toTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func fromTime(b *breach, m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	if err := m.CheckValid(); err != nil {
		b.add("a time is malformed: %w", err)
	}
	return m.AsTime()
}

// each converts a list; an empty one stays nil.
func each[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = convert(v)
	}
	return out
}

func toBytes[S ~string](s S) []byte { return []byte(s) }

func fromBytes(b []byte) string { return string(b) }

// sortedKeys makes the wire form of a map the same every time.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func toVariables(env map[string]string) []*pb.Variable {
	return each(sortedKeys(env), func(name string) *pb.Variable {
		return &pb.Variable{Name: []byte(name), Value: []byte(env[name])}
	})
}

func fromVariables(b *breach, list []*pb.Variable) map[string]string {
	return fromPairs(b, list, func(m *pb.Variable) string { return string(m.GetValue()) })
}

func toSecrets(secrets map[string]shared.Secret) []*pb.Secret {
	return each(sortedKeys(secrets), func(name string) *pb.Secret {
		return &pb.Secret{Name: []byte(name), Value: []byte(secrets[name].Reveal())}
	})
}

func fromSecrets(b *breach, list []*pb.Secret) map[string]shared.Secret {
	return fromPairs(b, list, func(m *pb.Secret) shared.Secret { return shared.NewSecret(string(m.GetValue())) })
}

func fromPairs[M interface{ GetName() []byte }, V any](b *breach, list []M, value func(M) V) map[string]V {
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]V, len(list))
	for _, m := range list {
		name := string(m.GetName())
		if _, twice := out[name]; twice {
			b.add("the name %q is there twice", name)
		}
		out[name] = value(m)
	}
	return out
}

func toNotices(b *breach, list []shared.Notice) []*pb.Notice {
	return each(list, func(n shared.Notice) *pb.Notice {
		return &pb.Notice{Kind: toEnum(b, noticeKindTable(), n.Kind), Detail: text(n.Detail), Count: n.Count}
	})
}

func fromNotices(b *breach, list []*pb.Notice) []shared.Notice {
	return each(list, func(m *pb.Notice) shared.Notice {
		return shared.Notice{Kind: fromEnum(b, noticeKindTable(), m.GetKind()), Detail: m.GetDetail(), Count: m.GetCount()}
	})
}
