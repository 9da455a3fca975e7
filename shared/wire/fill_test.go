package wire

import (
	"fmt"
	"io"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellharness/shared"
)

// filler gives every field of a value a value of its own, none of them zero.
type filler struct {
	t    *testing.T
	next int
}

func filled[G any](t *testing.T) G {
	t.Helper()
	var value G
	f := filler{t: t}
	f.fill(reflect.ValueOf(&value).Elem())
	return value
}

func (f *filler) number() int {
	f.next++
	return f.next
}

// special returns values for types whose values are not arbitrary.
func (f *filler) special(t reflect.Type) (any, bool) {
	n := f.number()
	switch reflect.New(t).Elem().Interface().(type) {
	case shared.Secret:
		return shared.NewSecret(fmt.Sprintf("secret %d", n)), true
	case time.Time:
		return time.Unix(int64(n), int64(n)).UTC(), true
	case func() (io.ReadCloser, error):
		return (func() (io.ReadCloser, error))(nil), true
	case shared.Dimension:
		return shared.Dimensions()[n%len(shared.Dimensions())], true
	case shared.Cause:
		return shared.Causes()[n%len(shared.Causes())], true
	case shared.Level:
		return shared.LevelNone + shared.Level(n%4), true
	case shared.Code:
		return shared.CodeInvalid + shared.Code(n%12), true
	case shared.NoticeKind:
		return noticeKindTable()[n%len(noticeKindTable())].value, true
	case shared.ColdStart:
		return coldStartTable()[1+n%3].value, true
	case shared.Transfer:
		return transferTable()[1+n%2].value, true
	case shared.Phase:
		return phaseTable()[n%3].value, true
	case shared.CellKind:
		return cellKindTable()[n%2].value, true
	case shared.SeedAs:
		return seedAsTable()[1+n%2].value, true
	case shared.Status:
		return statusTable()[n%3].value, true
	case shared.ArtifactKind:
		return artifactKindTable()[n%3].value, true
	case shared.ArtifactState:
		return artifactStateTable()[n%5].value, true
	case shared.ResourceState:
		return resourceStateTable()[n%3].value, true
	}
	return nil, false
}

func (f *filler) fill(v reflect.Value) {
	if special, ok := f.special(v.Type()); ok {
		v.Set(reflect.ValueOf(special))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text%d", f.number()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(f.number()))
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(f.number()))
	case reflect.Float64:
		v.SetFloat(float64(f.number()) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Map:
		f.fillMap(v)
	case reflect.Struct:
		f.fillStruct(v)
	default:
		f.t.Fatalf("nothing is known to fill a %s with", v.Type())
	}
}

func (f *filler) fillMap(v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for v.Len() < 2 {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.SetMapIndex(key, value)
	}
}

func (f *filler) fillStruct(v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Name == "SHA256" && v.Type() == reflect.TypeFor[shared.Content]() {
			v.Field(i).SetString(fmt.Sprintf("%064x", f.number()))
			continue
		}
		// What an error wraps stays on its side of the wire.
		if v.Type() == reflect.TypeFor[shared.Error]() && field.Name == "Err" {
			continue
		}
		f.fill(v.Field(i))
	}
}

func badDuration() *durationpb.Duration { return &durationpb.Duration{Seconds: 1, Nanos: -1} }
