package controlhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/control/controlhttp"
)

func ExampleHandler() {
	var panel control.Panel
	searching := panel.Policy(backoff.Policy{Name: "search"})
	authorize := func(r *http.Request) (who string, err error) {
		who, password, _ := r.BasicAuth()
		if password != "correct horse" { // a program asks what it asks for its other pages
			return "", errors.New("wrong password")
		}
		return who, nil
	}
	server := httptest.NewServer(controlhttp.Handler(&panel, authorize))
	defer server.Close()

	form := url.Values{"what": {"retries"}, "name": {"search"}, "to": {"off"}, "for": {"30m"}, "why": {"shard 7 is overloaded"}}
	for _, password := range []string{"guess", "correct horse"} {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "application/json")
		r.SetBasicAuth("ada", password)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, searching.Policy().MaxAttempts)
	}
	// Output:
	// 403 0
	// 200 1
}
