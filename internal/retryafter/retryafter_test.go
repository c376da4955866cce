package retryafter

import (
	"fmt"
	"math"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noon is the time of the clock in the tests of this package.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

const forever = time.Duration(math.MaxInt64)

// What is malformed is ignored.
func TestParseIgnoresWhatIsMalformed(t *testing.T) {
	for _, value := range []string{
		"", " ", "\t", "/", ":", "1/", "1:", "+5", "-0", "-1", "1.5", "1.", ".5", "1e3", "0x10", "1_000", "1 2", "120s", "120,240", "120;", "\n120", "\u00a0120",
		"٠", "١٢٠", "１２０", "120\x00", "soon", "NaN", "null",
		"2026-03-01T12:00:10Z", "Sun, 01 Mar 2026 12:00:10", "Sun, 01 Mar 2026 12:00:10 PST", "Sun, 01 Mar 2026 12:00:10 UTC",
		"Sun, 01 Mar 2026 12:00:10 +0000", "Sun, 01 Mar 2026 12:00:10 gmt", "Sun, 01 Mar 2026 25:00:10 GMT", "Sun, 32 Mar 2026 12:00:10 GMT",
		"Sunday, 01-Mar-26 12:00:10 PST", "Sunday, 01-Mar-26 12:00:10", "Sunday, 01-Mar-2026 12:00:10 GMT", "Sun Mar  1 12:00:10 2026 GMT",
		"Sun, 29 Feb 2026 12:00:00 GMT", "01 Mar 2026 12:00:10 GMT", "Sun, 01 Mar 26 12:00:10 GMT",
	} {
		got, ok := Parse(value, noon)
		require.False(t, ok, "%q", value)
		require.Zero(t, got, "%q", value)
	}
}

// The zone of now does not matter.
func TestParseReadsDatesInAnyZone(t *testing.T) {
	east := noon.In(time.FixedZone("east", 14*3600))
	for _, value := range []string{"Sun, 01 Mar 2026 12:00:10 GMT", "Sunday, 01-Mar-26 12:00:10 GMT", "Sun Mar  1 12:00:10 2026"} {
		got, ok := Parse(value, east)
		require.True(t, ok)
		require.Equal(t, 10*time.Second, got, value)
	}
}

// RFC 9110, 5.6.7: a two-digit year that looks more than 50 years ahead is the
// last one with these digits.
func TestATwoDigitYearIsNotMoreThanFiftyYearsAhead(t *testing.T) {
	for _, row := range []struct {
		now  int
		yy   string
		want int
	}{
		{2026, "26", 2026}, {2026, "27", 2027}, {2026, "69", 2069}, {2026, "75", 2075}, {2026, "77", 1977}, {2026, "99", 1999},
		{2026, "25", 2025}, {2026, "00", 2000},
		{2060, "09", 2109}, {2060, "11", 2011}, {2060, "61", 2061}, {2060, "59", 2059},
		{2099, "48", 2148}, {2099, "50", 2050},
		{1999, "00", 2000}, {1999, "48", 2048}, {1999, "50", 1950}, {1994, "94", 1994},
	} {
		now := time.Date(row.now, time.June, 15, 12, 0, 0, 0, time.UTC)
		date := time.Date(row.want, time.June, 15, 12, 0, 0, 0, time.UTC)
		value := fmt.Sprintf("%s, 15-Jun-%s 12:00:00 GMT", date.Weekday(), row.yy)
		got, ok := Parse(value, now)
		require.True(t, ok, value)
		require.Equal(t, max(0, date.Sub(now)), got, "%s in %d", value, row.now)
	}
}

// Exactly 50 years ahead is not more than 50.
func TestThePivotIsExact(t *testing.T) {
	got, ok := Parse("Sunday, 01-Mar-76 12:00:00 GMT", noon)
	require.True(t, ok)
	require.Equal(t, noon.AddDate(50, 0, 0).Sub(noon), got)
	got, ok = Parse("Sunday, 01-Mar-76 12:00:01 GMT", noon)
	require.True(t, ok)
	require.Zero(t, got, "1976")

	late := noon.AddDate(73, 0, 0) // 2099
	for value, want := range map[string]time.Duration{
		"Monday, 01-Mar-49 12:00:00 GMT": 0,
		"Monday, 01-Mar-49 11:59:59 GMT": late.AddDate(50, 0, 0).Sub(late) - time.Second,
		"Monday, 10-Mar-49 12:00:00 GMT": 0,
		"Monday, 20-Feb-49 12:00:00 GMT": late.AddDate(50, 0, -9).Sub(late),
	} {
		got, ok = Parse(value, late)
		require.True(t, ok)
		require.Equal(t, want, got, value)
	}
}

// Nonsense means "do not retry", the opposite of
// Retry-After.
func TestParsePushback(t *testing.T) {
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
		got, given := ParsePushback(row.values...)
		require.Equal(t, row.given, given, "%q", row.values)
		require.Equal(t, row.want, got, "%q", row.values)
	}
}

// header is a header of one field.
func header(name string, values ...string) map[string][]string {
	return map[string][]string{name: values}
}

func TestFromReadsFourHeaders(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"Retry-After":         3 * time.Minute,
		"Retry-After-Ms":      180 * time.Millisecond,
		"X-Ms-Retry-After-Ms": 180 * time.Millisecond,
		"X-Amz-Retry-After":   180 * time.Millisecond,
	} {
		got, ok := From(header(name, "180"), noon)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	got, ok := From(header("Retry-After", "Sun, 01 Mar 2026 12:00:30 GMT"), noon)
	require.True(t, ok)
	require.Equal(t, 30*time.Second, got)
}

func TestFromReturnsTheLongestValidWait(t *testing.T) {
	got, ok := From(map[string][]string{"Retry-After": {"soon", "2", "7", "-1"}, "Retry-After-Ms": {"2500"}}, noon)
	require.True(t, ok)
	require.Equal(t, 7*time.Second, got)
	got, ok = From(header("Retry-After", "0"), noon)
	require.True(t, ok)
	require.Zero(t, got)
}

// draft-ietf-httpapi-ratelimit-headers-10. Retry-After goes first, and a limit
// of which something is left asks for nothing.
func TestFromReadsTheRateLimitFieldOfAUsedUpLimit(t *testing.T) {
	for value, want := range map[string]time.Duration{
		`"default";r=0;t=30`: 30 * time.Second,
		`"burst";r=0;t=2, "daily"; pk=:cHNk:; r=0; t=3600,"other";r=7;t=9999`: time.Hour,
		`"a\",\\;r=0;t=9";t=1;r=00`: time.Second,
		`"default";r=1;t=30`:        -1,
		`"default";r=0`:             -1,
		`"a;r=0;t=9";r=5;t=1`:       -1,
	} {
		require.Equal(t, want, waitOf(value), value)
	}
	got, _ := From(map[string][]string{"Ratelimit": {`"a";r=0;t=30`}, "Retry-After": {"2"}}, noon)
	require.Equal(t, 2*time.Second, got)
	_, ok := Asked(header("Ratelimit", `"a";r=0;t=30`), noon)
	require.False(t, ok)
}

// The AWS SDK clamps the header at 5 s beyond its own wait.
func TestTheHeaderOfAWSCountsForFiveSecondsWithItsSpread(t *testing.T) {
	got, ok := From(header("X-Amz-Retry-After", "60000"), noon)
	require.True(t, ok)
	require.InDelta(t, 5*time.Second, got*11/10, 10)
}

func TestFormatRoundsUpToSeconds(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Second: "1", 1500 * time.Millisecond: "2", time.Minute: "60", forever: "9223372037",
	} {
		require.Equal(t, want, Format(wait))
	}
}

// A server may send half a million of them in one header.
func TestFromReadsAHundredValues(t *testing.T) {
	values := append(make([]string, 99), "1", "2")
	d, ok := From(map[string][]string{"Retry-After": values}, noon)
	require.True(t, ok)
	require.Equal(t, time.Second, d)
}

// RFC 9110, 10.2.3 and 5.6.7, and decisions 33 to 37. Digits are read as
// arithmetic reads them, and dates as net/http does, but for the two points in
// which it departs from the RFC: zones and two-digit years.
func FuzzParse(f *testing.F) {
	for _, value := range []string{
		"", "0", "1", "120", "00120", "86400", " 120\t", "120\t ", "+5", "-0", "1.5", "٠", "9223372035", "9223372036", "9223372037",
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551617", "1" + strings.Repeat("0", 30),
		strings.Repeat("0", 400) + "7", strings.Repeat("9", 4000), "Sun, 01 Mar 2026 12:00:10 GMT", " Sun, 01 Mar 2026 12:00:10 GMT ",
		"Sun Mar  1 12:00:10 2026", "Mon, 02 Mar 2026 12:00:00 GMT", "Sun, 01 Mar 2026 12:00:00 GMT", "Sun, 01 Mar 2026 11:59:59 GMT", "Fri Dec 31 23:59:59 9999",
		"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
		"Sun, 06 Nov 1994 08:49:37 PST", "Tue, 29 Feb 2028 00:00:00 GMT", "Thursday, 29-Feb-24 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, ok := Parse(value, noon)
		if got < 0 || !ok && got != 0 {
			t.Fatalf("Parse(%q) = %v, %v", value, got, ok)
		}
		trimmed := strings.Trim(value, " \t")
		if trimmed != "" && strings.Trim(trimmed, "0123456789") == "" {
			exact, _ := new(big.Int).SetString(trimmed, 10)
			exact.Mul(exact, big.NewInt(int64(time.Second)))
			if want := atMost(exact, forever); !ok || got != want {
				t.Fatalf("Parse(%q) = %v, %v, want %v", value, got, ok, want)
			}
			return
		}
		date, err := http.ParseTime(trimmed)
		if ok && err != nil {
			t.Fatalf("Parse(%q) = %v, not a date: %v", value, got, err)
		}
		if twoDigits := strings.Contains(trimmed, "-"); err == nil && !twoDigits && (!ok || got != max(0, date.Sub(noon))) {
			t.Fatalf("Parse(%q) = %v, %v, want %v", value, got, ok, date.Sub(noon))
		}
		if ok && strings.Contains(trimmed, "-") && got > noon.AddDate(50, 0, 1).Sub(noon) {
			t.Fatalf("Parse(%q) = %v, more than 50 years ahead", value, got)
		}
	})
}

// A pushback is a count of milliseconds, or it is a no.
func FuzzParsePushback(f *testing.F) {
	for _, value := range []string{"", "0", "25", "-1", " 25", "2147483648", "9223372036855", "1e3", "٠", "\t20 ", "007", "+5", "1.5", "1" + strings.Repeat("0", 30)} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, given := ParsePushback(value)
		digits := value != "" && strings.Trim(value, "0123456789") == ""
		if !given || (got >= 0) != digits || !digits && got != -1 {
			t.Fatalf("ParsePushback(%q) = %v, %v", value, got, given)
		}
		if twice, given := ParsePushback(value, value); !given || twice != -1 {
			t.Fatalf("two values: %v, %v", twice, given)
		}
		want, _ := ParsePushback(strings.Trim(value, " \t"))
		if ms, ok := ParseMS(value); ok != (want >= 0) || ms != max(0, want) {
			t.Fatalf("ParseMS(%q) = %v, %v, want %v", value, ms, ok, want)
		}
	})
}

// atMost returns x, or limit if x is greater.
func atMost(x *big.Int, limit time.Duration) time.Duration {
	if x.Cmp(big.NewInt(int64(limit))) > 0 {
		return limit
	}
	return time.Duration(x.Int64())
}
