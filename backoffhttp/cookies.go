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
	all := strings.Split(strings.Join(header, ";"), ";")
	var own []string
	left := make(map[string]int, len(jar))
	for _, c := range jar {
		left[c.Name]++
	}
	for i := len(all) - 1; i >= 0; i-- {
		cookie := strings.TrimSpace(all[i])
		name, _, _ := strings.Cut(cookie, "=")
		if left[name]--; left[name] < 0 && cookie != "" {
			own = append(own, cookie)
		}
	}
	slices.Reverse(own)
	return strings.Join(own, "; ")
}

// writeTo gives a request the cookies that the jar has for it now.
func (k *cookies) writeTo(req *http.Request, jar http.CookieJar) {
	req.Header.Del("Cookie")
	if k.own != "" {
		req.Header.Set("Cookie", k.own)
	}
	for _, c := range jar.Cookies(k.url) {
		req.AddCookie(c)
	}
}
