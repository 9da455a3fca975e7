package definition

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

var (
	errSensitive = errors.New("is sensitive, and a plan records everything; hand it over as a secret, such as secret::env(\"NAME\") in env")
	errNull      = errors.New("is null")
	errUnknown   = errors.New("is not known")
	errSecret    = errors.New("is a secret; a secret may stand only in credentials and as a whole value in an exec cell's env")
	errNUL       = errors.New("holds a NUL byte")
)

// settle is the one way by which values leave the language: it checks, in this order, that v is not sensitive, not
// null, known, and of the wanted type.
func settle(v cty.Value, want cty.Type) (cty.Value, error) {
	switch {
	case v.ContainsMarked():
		return cty.NilVal, errSensitive
	case v.IsNull():
		return cty.NilVal, errNull
	case !v.IsKnown():
		return cty.NilVal, errUnknown
	case holdsSecret(v.Type()):
		return cty.NilVal, errSecret
	}
	out, err := convert.Convert(v, want)
	if err != nil {
		return cty.NilVal, fmt.Errorf("must be %s, not %s", want.FriendlyName(), v.Type().FriendlyName())
	}
	return out, nil
}

func holdsSecret(t cty.Type) bool { return t.IsCapsuleType() }

func toText(v cty.Value) (string, error) {
	if n, ok := smallInt(v); ok {
		return strconv.FormatInt(n, 10), nil
	}
	s, err := settle(v, cty.String)
	if err != nil {
		return "", err
	}
	return s.AsString(), nil
}

// smallInt reads a whole number without the general conversion, which takes most of the time of a large plan.
func smallInt(v cty.Value) (int64, bool) {
	if v.IsMarked() || v.IsNull() || !v.IsKnown() || v.Type() != cty.Number {
		return 0, false
	}
	n, accuracy := v.AsBigFloat().Int64()
	return n, accuracy == big.Exact
}

// toArgument is toText for what ends up in a C string: an argument, a variable, a path.
func toArgument(v cty.Value) (string, error) {
	s, err := toText(v)
	if err != nil {
		return "", err
	}
	if strings.ContainsRune(s, 0) {
		return "", errNUL
	}
	return s, nil
}

func toBool(v cty.Value) (bool, error) {
	b, err := settle(v, cty.Bool)
	if err != nil {
		return false, err
	}
	return b.True(), nil
}

func toNumber(v cty.Value) (*big.Float, error) {
	n, err := settle(v, cty.Number)
	if err != nil {
		return nil, err
	}
	f := n.AsBigFloat()
	if f.IsInf() {
		return nil, errors.New("is infinite")
	}
	return f, nil
}

// toInt refuses what an int64 cannot hold exactly, instead of rounding it.
func toInt(v cty.Value, least int64) (int64, error) {
	wanted := fmt.Errorf("must be a whole number of at least %d", least)
	f, err := toNumber(v)
	if errors.Is(err, errNull) || errors.Is(err, errSensitive) || errors.Is(err, errUnknown) {
		return 0, err
	}
	if err != nil {
		return 0, wanted
	}
	n, accuracy := f.Int64()
	if accuracy != big.Exact || n < least {
		return 0, fmt.Errorf("%w, not %s", wanted, f.Text('f', -1))
	}
	return n, nil
}

// toDuration reads a positive duration such as "1m30s".
func toDuration(v cty.Value) (time.Duration, error) {
	s, err := toText(v)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf(`is %q, which is no duration; write a number with a unit, such as "90s", "5m" or "1h30m"`, s)
	}
	if d <= 0 {
		return 0, fmt.Errorf("is %q: a limit must be positive; leave it out for the default", s)
	}
	return d, nil
}

// toSize reads a number of bytes such as "4GiB" or "500MB".
func toSize(v cty.Value) (int64, error) {
	s, err := toText(v)
	if err != nil {
		return 0, err
	}
	units := []struct {
		name  string
		bytes int64
	}{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
		{"kB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"B", 1},
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, ok := new(big.Rat).SetString(strings.TrimSpace(digits))
		if !ok || strings.ContainsAny(digits, "/eEpPxX") {
			break
		}
		n.Mul(n, new(big.Rat).SetInt64(u.bytes))
		if !n.IsInt() || !n.Num().IsInt64() || n.Sign() <= 0 {
			return 0, fmt.Errorf("is %q; a size must be a positive whole number of bytes below 8 EiB", s)
		}
		return n.Num().Int64(), nil
	}
	return 0, fmt.Errorf(`is %q, which is no size; write a number with a unit, such as "512MiB" or "4GiB"`, s)
}

// toShare reads a share such as "25%" as a number from 0 to 1.
func toShare(v cty.Value) (float64, error) {
	s, err := toText(v)
	if err != nil {
		return 0, err
	}
	wanted := fmt.Errorf(`is %q, which is no share; write a percentage from "0%%" to "100%%"`, s)
	digits, ok := strings.CutSuffix(s, "%")
	n, parsed := new(big.Rat).SetString(strings.TrimSpace(digits))
	if !ok || !parsed || strings.ContainsAny(digits, "/eEpPxX") {
		return 0, wanted
	}
	n.Quo(n, big.NewRat(100, 1))
	if n.Sign() < 0 || n.Cmp(big.NewRat(1, 1)) > 0 {
		return 0, wanted
	}
	f, _ := n.Float64()
	return f, nil
}

// elements returns the members of a list, tuple or set.
func elements(v cty.Value) ([]cty.Value, error) {
	if err := collection(v, func(t cty.Type) bool { return t.IsTupleType() || t.IsListType() || t.IsSetType() }, "a list"); err != nil {
		return nil, err
	}
	return v.AsValueSlice(), nil
}

// entries returns the members of a map or object.
func entries(v cty.Value) (map[string]cty.Value, error) {
	if err := collection(v, func(t cty.Type) bool { return t.IsMapType() || t.IsObjectType() }, "a map"); err != nil {
		return nil, err
	}
	return v.AsValueMap(), nil
}

// collection checks v itself and leaves its members to whoever reads them.
func collection(v cty.Value, is func(cty.Type) bool, want string) error {
	switch {
	case v.IsMarked():
		return errSensitive
	case v.IsNull():
		return errNull
	case !v.IsKnown():
		return errUnknown
	case holdsSecret(v.Type()):
		return errSecret
	case !is(v.Type()):
		return fmt.Errorf("must be %s, not %s", want, v.Type().FriendlyName())
	}
	return nil
}
