package retryafter

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Digits are read as arithmetic reads them, and dates as net/http does, but for
// the two points in which it departs from the RFC: zones and two-digit years.
func FuzzParse(f *testing.F) {
	for _, value := range []string{
		"", "0", "120", " 120\t", "+5", "-0", "1.5", "٠", "9223372036", "9223372037", "9223372036854775808", "1" + strings.Repeat("0", 30),
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
	for _, value := range []string{"", "0", "25", "-1", " 25", "2147483648", "9223372036855", "1e3", "٠", `"a\",";r=0;t=5`} {
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
		if d, ok := From(map[string][]string{"Ratelimit": {value}}, noon); d < 0 || !ok && d != 0 {
			t.Fatalf("From(%q) = %v, %v", value, d, ok)
		}
		ms, ok := ParseMS(value)
		if digits && (!ok || ms != got) {
			t.Fatalf("ParseMS(%q) = %v, %v, want %v", value, ms, ok, got)
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
