package backoffhttp

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// cookies are those of a call one of whose answers has set some, and was not returned.
type cookies struct {
	url *url.URL
	own string // what the caller wrote into the header, without those of the jar
}

// keepCookies puts the cookies of an answer that is not returned into the jar of the
// client, which does so with the last answer only. Source: RFC 6265, 3.
func (c *call) keepCookies() {
	jar, set := c.t.jar, c.resp.Header["Set-Cookie"]
	if jar == nil || len(set) == 0 {
		return
	}
	if c.cookies == nil {
		u := *c.req.URL
		if c.req.Host != "" { // as in http.Client
			u.Host = c.req.Host
		}
		c.cookies = &cookies{&u, withoutLast(c.req.Header["Cookie"], jar.Cookies(&u))}
	}
	jar.SetCookies(c.cookies.url, c.resp.Cookies())
}

// withoutLast returns the cookies of a header without those of the jar, which are behind
// the others.
func withoutLast(header []string, jar []*http.Cookie) string {
	left := make(map[string]int, len(jar))
	for _, c := range jar {
		left[c.Name]++
	}
	all := strings.Split(strings.Join(header, ";"), ";")
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(cookie string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(cookie), "=")
		left[name]--
		return left[name] >= 0
	})
	slices.Reverse(all)
	return strings.TrimSpace(strings.Join(all, ";"))
}

// writeTo gives a request the cookies that the jar has for it now. Nil leaves it as it is.
func (k *cookies) writeTo(req *http.Request, jar http.CookieJar) {
	if k == nil {
		return
	}
	req.Header.Set("Cookie", k.own)
	if k.own == "" {
		req.Header.Del("Cookie")
	}
	for _, c := range jar.Cookies(k.url) {
		req.AddCookie(c)
	}
}
