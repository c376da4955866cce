package backoffslog_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffslog"
)

func TestSecretsOfURLsAreTakenOut(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://ann:hunter2@example.com/a/b?user=5&token=abc#top": EOF`:  `Get "https://xxxxx@example.com/a/b?user=xxxxx&token=xxxxx#xxxxx": EOF`,
		`dial https://hunter2@example.com:8080/x`:                              `dial https://xxxxx@example.com:8080/x`,
		`parse "postgres://ann:hun/ter2@db/x": invalid port ":hun" after host`: `parse "postgres://xxxxx@db/x": invalid port xxxxx after host`,
		`see http://example.com/?hunter2, please`:                              `see http://example.com/?xxxxx please`,
		`see http://example.com/?=hunter2&;a=`:                                 `see http://example.com/?xxxxx&;a=`,
		`Get "http://example.com/?q=hunter 2": EOF`:                            `Get "http://example.com/?q=xxxxx": EOF`,
		`https://proxy/https://ann:hunter2@db/?a=hunter2`:                      `https://xxxxx@db/?a=xxxxx`,
		`https://proxy/?https://ann:hunter2@db/?a=hunter2`:                     `https://proxy/?xxxxx`,
		`get "https://a/?b='https://ann:hunter2@db/?c=hunter 2'" x`:            `get "https://a/?b=xxxxx" x`,
	} {
		require.Equal(t, want, backoffslog.Redact(text))
		require.Equal(t, want, backoffslog.Redact(want), "a text that has no secrets any more")
	}
}

// A redactor that hides everything would pass the test above.
func TestOrdinaryTextsStay(t *testing.T) {
	for _, text := range []string{
		"",
		"connection refused",
		`Get "https://example.com:8443/v1/orders/7": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
		`ERROR: duplicate key value violates unique constraint "users_email_key" (SQLSTATE 23505)`,
		"at 10:30:05 ann@example.com asked for [::1]:80",
		"https://[fe80::1%25eth0]:8080/path",
		"größer als erlaubt: 5 > 3",
		"://",
	} {
		require.Equal(t, text, backoffslog.Redact(text))
	}
}

func TestTheErrorsOfNetHTTPAreSafe(t *testing.T) {
	for _, address := range []string{
		"http://ann:hunter2@127.0.0.1:1/?key=hunter2",
		"http://127.0.0.1:1/?password=hunter2#hunter2",
		"nothing://ann:hunter2@example.com",
		"http://ann:hunter2/@example.com",
		"http://ann:hunter2@exa mple.com/",
		"http://example.com/?q=\"hunter2\" hunter2",
	} {
		_, err := http.Get(address)
		require.Error(t, err)
		require.NotContains(t, backoffslog.Redact(err.Error()), "hunter2", "%s", err)
		require.NotContains(t, backoffslog.Redact(fmt.Sprintf("%q", err)), "hunter2", "%q", err)
	}
}

func TestATextIsCut(t *testing.T) {
	require.LessOrEqual(t, len(backoffslog.Redact(strings.Repeat("https://a/?k=1& ", 100_000))), 2048)
	long := backoffslog.Redact(strings.Repeat("wörter ", 1000))
	require.LessOrEqual(t, len(long), 2048)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, "..."))
	require.NotContains(t, backoffslog.Redact("dial https://ann:"+strings.Repeat("hunter2", 1000)+"@db"), "hunter2")
}

// FuzzRedact puts a secret where the documentation promises to find one,
// between texts of any kind.
func FuzzRedact(f *testing.F) {
	f.Add("", "", uint8(0))
	f.Add("Get \"", "\": EOF", uint8(3))
	f.Add("\x00\xff\n", "\\\"", uint8(9))
	f.Add(strings.Repeat("://", 1365), "", uint8(2))
	const secret = "Qx7/pL9zvB2"
	places := []string{
		"https://ann:%s@example.com/", "https://Qx7pL9zvB2@example.com/", "https://example.com/?a=b&c=%s&d=e", "https://example.com/?%s#f",
		"https://example.com/#%s", "https://a/https://ann:%s@b/", `Get "https://a/?b=c %s": EOF`,
	}
	f.Fuzz(func(t *testing.T, before, after string, n uint8) {
		place := places[int(n)%len(places)]
		if strings.Contains(before+after, "Qx7") || strings.ContainsAny(before, ":\"'`\\") {
			t.Skip() // or the URL may be part of another one
		}
		text := before + " " + strings.ReplaceAll(place, "%s", secret) + " " + after
		got := backoffslog.Redact(text)
		if len(got) > 2048 {
			t.Errorf("%d bytes", len(got))
		}
		if strings.Contains(got, "Qx7") {
			t.Errorf("%q\nbecame %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q became invalid: %q", text, got)
		}
	})
}

func ExampleRedact() {
	err := error(&url.Error{Op: "Get", URL: "https://ann:hunter2@example.com/orders?key=abc", Err: errors.New("EOF")})
	fmt.Println(backoffslog.Redact(err.Error()))
	// Output: Get "https://xxxxx@example.com/orders?key=xxxxx": EOF
}

// A server sends all that net/http lets it send.
func TestAHostileServerWritesNoMoreThanItsRecords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 500 {
			w.Header().Add("X-Request-Id", fmt.Sprint(i, "\tlevel=INFO\xff https://ann:hunter2@evil.test/ ", strings.Repeat("x", 1000)))
			w.Header().Add(fmt.Sprint("X-Other-", i), "hunter2")
		}
		w.Header().Set("Retry-After", strings.Repeat("9", 10_000))
		w.Header().Set("Set-Cookie", "session=hunter2")
		w.Header().Set("Location", "https://ann:hunter2@evil.test/")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(bytes.Repeat([]byte("hunter2\n"), 1<<17))
	}))
	defer server.Close()
	for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		client := &http.Client{Transport: &backoffhttp.Transport{Policy: backoff.Policy{
			Name: strings.Repeat("n\n", 1<<20), MaxAttempts: 3, Schedule: backoff.Constant(time.Millisecond),
			Observer: backoffslog.New(slog.New(make(&out)), nil),
		}}}
		resp, err := client.Get(server.URL + "/?token=hunter2")
		if err == nil {
			resp.Body.Close()
		}
		require.Positive(t, out.Len())
		require.NotContains(t, out.String(), "hunter2", name)
		for line := range strings.Lines(out.String()) {
			require.Less(t, len(line), 10_000, name)
			require.True(t, strings.HasPrefix(line, "time=") || strings.HasPrefix(line, `{"time":`), "%s: %.100s", name, line)
		}
		require.LessOrEqual(t, strings.Count(out.String(), "\n"), 3, name)
	}
}
