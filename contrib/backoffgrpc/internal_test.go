package backoffgrpc

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gobackoff/backoff"
)

// Nonsense means "do not retry", the opposite of Retry-After.
func TestParsePushback(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	for _, row := range []struct {
		values []string
		want   time.Duration
		given  bool
	}{
		{nil, 0, false},
		{[]string{"0"}, 0, true},
		{[]string{"25"}, 25 * time.Millisecond, true},
		{[]string{"0025"}, 25 * time.Millisecond, true},
		{[]string{"2147483648"}, 2147483648 * time.Millisecond, true},
		{[]string{"9223372036854"}, 9223372036854 * time.Millisecond, true},
		{[]string{"9223372036855"}, forever, true},
		{[]string{"9223372036854775808"}, forever, true},
		{[]string{"-1"}, -1, true},
		{[]string{"-0"}, -1, true},
		{[]string{""}, -1, true},
		{[]string{" 25"}, -1, true},
		{[]string{"+25"}, -1, true},
		{[]string{"2.5"}, -1, true},
		{[]string{"soon"}, -1, true},
		{[]string{"٠"}, -1, true},
		{[]string{"25", "25"}, -1, true},
		{[]string{"", ""}, -1, true},
	} {
		got, given := parsePushback(row.values)
		require.Equal(t, row.given, given, "%q", row.values)
		require.Equal(t, row.want, got, "%q", row.values)
	}
}

// A pushback is a count of milliseconds, or it is a no.
func TestAPushbackIsRoundedUpAndNeverADoNotRetry(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", math.MaxInt64: "2147483647", math.MaxInt64 - 1: "2147483647",
	} {
		require.Equal(t, want, pushbackOf(d), d)
	}
}

func FuzzParsePushback(f *testing.F) {
	for _, value := range []string{"", "0", "25", "-1", " 25", "2147483648", "9223372036855", "1e3", "٠"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, given := parsePushback([]string{value})
		digits := value != "" && strings.Trim(value, "0123456789") == ""
		if !given || (got >= 0) != digits || !digits && got != -1 {
			t.Fatalf("parsePushback(%q) = %v, %v", value, got, given)
		}
		if twice, given := parsePushback([]string{value, value}); !given || twice != -1 {
			t.Fatalf("two values: %v, %v", twice, given)
		}
	})
}

// sink is a stream that takes everything and answers with nothing.
type sink struct{ grpc.ClientStream }

func (sink) SendMsg(any) error { return nil }
func (sink) RecvMsg(any) error { return nil }

func TestAStreamKeepsNoMoreThanItMaySendAgain(t *testing.T) {
	policy := backoff.Policy{}
	s := &stream{ctx: t.Context(), cancel: func() {}, inner: sink{}, carried: &carried{policy: policy}, run: policy.Start(t.Context())}
	require.NoError(t, s.next(nil))
	require.NoError(t, s.SendMsg(&pb.StreamingOutputCallRequest{}))
	require.Len(t, s.sent, 1)
	require.NoError(t, s.RecvMsg(&pb.StreamingOutputCallResponse{}))
	require.Empty(t, s.sent, "it was answered")

	s = &stream{inner: sink{}}
	for range 10_000 {
		require.NoError(t, s.SendMsg(&pb.Empty{}))
	}
	require.Empty(t, s.sent, "messages without fields take memory, too")
}
