package backoffslog_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffslog"
)

func TestSecretsAreTakenOut(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://ann:hunter2@example.com/a/b?user=5&token=abc#top": EOF`:          `Get "https://xxxxx@example.com/a/b?user=xxxxx&token=xxxxx#xxxxx": EOF`,
		`dial https://hunter2@example.com:8080/x`:                                      `dial https://xxxxx@example.com:8080/x`,
		`parse "postgres://ann:hun/ter2@db/x": invalid port ":hun" after host`:         `parse "postgres://xxxxx@db/x": invalid port "xxxxx" after host`,
		`see http://example.com/?hunter2, please`:                                      `see http://example.com/?xxxxx please`,
		`Get "http://example.com/?q=hunter 2": EOF`:                                    `Get "http://example.com/?q=xxxxx": EOF`,
		`root:hun@ter2@tcp(127.0.0.1:3306)/shop: refused`:                              `root:xxxxx@tcp(127.0.0.1:3306)/shop: refused`,
		`host=db user=ann password=hunter2 dbname=shop`:                                `host=db user=ann password=xxxxx dbname=shop`,
		`password = 'hunter 2' rest`:                                                   `password = 'xxxxx' rest`,
		`password[]=hunter2&user[password]=hunter2`:                                    `password[]=xxxxx`,
		`{"client_secret":"hun\"ter2","user":"ann"}`:                                   `{"client_secret":"xxxxx","user":"ann"}`,
		`Authorization: Digest username="ann", response="hunter2"`:                     `Authorization:xxxxx`,
		"bad header\nCookie: a=b; c=hunter2\nHost: x":                                  "bad header\nCookie:xxxxx\nHost: x",
		`map[X-Api-Key:[hunter2] Host:[x]]`:                                            `map[X-Api-Key:[xxxxx Host:[x]]`,
		`401 for Bearer hunter2, sorry`:                                                `401 for Bearer xxxxx sorry`,
		`password=Bearer hunter2`:                                                      `password=xxxxx xxxxx`,
		`AWS_SECRET_ACCESS_KEY=hunter2 x`:                                              `AWS_SECRET_ACCESS_KEY=xxxxx x`,
		`Incorrect API key provided: sk-proj-hunter2hunter2.`:                          `Incorrect API key provided: xxxxx`,
		`Idempotency-Key: 8e03978e-40d5-43dd-bc93-6894a57f9324`:                        `Idempotency-Key: xxxxx`,
		`config.Key=hunter2`:                                                           `config.Key=xxxxx`,
		`AccountName=x;AccountKey=hunter2==`:                                           `AccountName=x;AccountKey=xxxxx`,
		`db_pass=hunter2 db=x`:                                                         `db_pass=xxxxx db=x`,
		`{"dbPass": "hunter 2"}`:                                                       `{"dbPass": "xxxxx"}`,
		`encryption_key: hunter2`:                                                      `encryption_key: xxxxx`,
		`ENCRYPTION-KEY-2=hunter2`:                                                     `ENCRYPTION-KEY-2=xxxxx`,
		`{Host:x Passkey:hunter2}`:                                                     `{Host:x Passkey:xxxxx`,
		"-----BEGIN RSA PRIVATE KEY-----\nhunter\n2\n-----END RSA PRIVATE KEY-----\nx": "-----BEGIN RSA PRIVATE KEY-----xxxxx-----END RSA PRIVATE KEY-----\nx",
		`bad: -----BEGIN PRIVATE KEY-----\nhunter2\n`:                                  `bad: -----BEGIN PRIVATE KEY-----xxxxx`,
		"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nhunter2": "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----xxxxx",
		`-----BEGIN PGP PRIVATE KEY BLOCK-----hunter2-----END`:                                              `-----BEGIN PGP PRIVATE KEY BLOCK-----xxxxx-----END`,
		`https://proxy/https://ann:hunter2@db/?a=hunter2`:                                                   `https://proxy/https://xxxxx@db/?a=xxxxx`,
		`get "https://a/?b='https://ann:hunter2@db/?c=hunter 2'" x`:                                         `get "https://a/?b=xxxxx" x`,
		`key=hunter2`: `key=xxxxx`,
	} {
		require.Equal(t, want, backoffslog.Redact(text))
	}
}

// A redactor that hides everything would pass the test above.
func TestOrdinaryTextsStay(t *testing.T) {
	for _, text := range []string{
		"",
		"connection refused",
		"dial tcp 127.0.0.1:5432: connect: connection refused",
		`Get "https://example.com:8443/v1/orders/7": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
		`ERROR: duplicate key value violates unique constraint "users_email_key" (SQLSTATE 23505)`,
		"rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing\"",
		"status 503 Service Unavailable",
		"at 10:30:05 ann@example.com asked for [::1]:80",
		"x509: certificate signed by unknown authority",
		"https://[fe80::1%25eth0]:8080/path",
		"größer als erlaubt: 5 > 3",
		"keyboard: qwerty, passage: 5, monkeys=3",
		"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
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
	require.LessOrEqual(t, len(backoffslog.Redact(strings.Repeat("k=1&", 100_000))), 2048)
	long := backoffslog.Redact(strings.Repeat("wörter ", 1000))
	require.LessOrEqual(t, len(long), 2048)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, "..."))
	// The "@" that makes a login of it is beyond what is read.
	require.NotContains(t, backoffslog.Redact("dial https://ann:"+strings.Repeat("hunter2", 1000)+"@db"), "hunter2")
}

// FuzzRedact puts a secret where the documentation promises to find one,
// between texts of any kind.
func FuzzRedact(f *testing.F) {
	f.Add("", "", uint8(0))
	f.Add("Get \"", "\": EOF", uint8(3))
	f.Add("password=", " Bearer", uint8(5))
	f.Add("\x00\xff\n", "\\\"", uint8(9))
	f.Add(strings.Repeat("a:@", 2000), "", uint8(1))
	f.Add(strings.Repeat("://", 1365), "", uint8(2))
	f.Add("cookie:", "x\ncookie:", uint8(17))
	f.Add("-----BEGIN PRIVATE KEY-----", "-----END", uint8(20))
	f.Add(strings.Repeat("password=\"", 300), "'`", uint8(19))
	// The seed with a user's name has no slash, or it would be a path.
	const secret = "Qx7/pL9zvB2"
	places := []string{
		"https://ann:%s@example.com/", "https://Qx7pL9zvB2@example.com/", "https://example.com/?a=b&c=%s&d=e", "https://example.com/?%s#f",
		"https://example.com/#%s", "ann:%s@tcp(db:1)/x", "password=%s", "Password: '%s b'", `{"access_token": "%s"}`,
		"Authorization: Basic %s", "Proxy-Authorization:Custom x %s", "Cookie: a=b; c=%s", "x-api-key=%s", "Bearer %s", "bearer \t%s",
		"api_key => %s", `cfg["secret"] = "%s"`, "key=%s", "eyJhbGciOi.%s", "ghp_0123456789%s",
		"AccountKey=%s", "db_pass=%s", "encryption_key: %s", "-----BEGIN EC PRIVATE KEY-----\nMII\n%s\n-----END EC PRIVATE KEY-----",
		"-----BEGIN OPENSSH PRIVATE KEY-----%s", "https://a/https://ann:%s@b/", "Subscription-Key-1: %s",
	}
	f.Fuzz(func(t *testing.T, before, after string, n uint8) {
		place := places[int(n)%len(places)]
		if strings.Contains(before+after, "Qx7") {
			t.Skip()
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
		if again := backoffslog.Redact(got); again != got {
			t.Errorf("%q\nbecame %q\nand then %q", text, got, again)
		}
	})
}

func ExampleRedact() {
	err := error(&url.Error{Op: "Get", URL: "https://ann:hunter2@example.com/orders?key=abc", Err: errors.New("EOF")})
	fmt.Println(backoffslog.Redact(err.Error()))
	// Output: Get "https://xxxxx@example.com/orders?key=xxxxx": EOF
}
