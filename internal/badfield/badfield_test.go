package badfield_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/badfield"
)

func TestErrorsNameTheFieldAndWhatIsWrong(t *testing.T) {
	for want, err := range map[string]error{
		"backoff: Policy.Jitter is nil":                            badfield.New("Policy.Jitter", "is nil"),
		"backoff: Breaker.Window is -1s, want 0 or more":           badfield.Negative("Breaker.Window", -time.Second),
		"backoff: limit.Rate.Tokens is -1, want 0 (for 1) or more": badfield.Int("limit.Rate.Tokens", -1, "0 (for 1) or more"),
		"backoff: limit.Throttle.K is 0.9, want 1 or more":         badfield.Float("limit.Throttle.K", 0.9, "1 or more"),
		"backoff: limit.Throttle.Pad is NaN, want a finite number": badfield.Float("limit.Throttle.Pad", math.NaN(), "a finite number"),
		"backoff: limit.Throttle.K is 1e-09, want 1 or more":       badfield.Float("limit.Throttle.K", 1e-9, "1 or more"),
		"backoff: limit.Throttle.Pad is +Inf, want less than that": badfield.Float("limit.Throttle.Pad", math.Inf(1), "less than that"),
	} {
		require.EqualError(t, err, want)
		var bad *badfield.Error
		ok := errors.As(err, &bad)
		require.True(t, ok)
		require.NotEmpty(t, bad.Field)
		require.NotEmpty(t, bad.Problem)
	}
}

func TestIsNilKnowsANilPointerFromAValue(t *testing.T) {
	type one struct{ P *int }
	for _, v := range []any{(*int)(nil), (func())(nil), (*one)(nil), (*[8]int)(nil)} {
		require.True(t, badfield.IsNil(v), "%T", v)
	}
	for _, v := range []any{nil, 0, false, "", new(int), one{}, struct{}{}, [1]*int{}, []int(nil), time.Duration(0), func() {}} {
		require.False(t, badfield.IsNil(v), "%T", v)
	}
}
