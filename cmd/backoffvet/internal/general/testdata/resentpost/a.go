package resentpost

import (
	"net/http"
	"net/url"
	"time"
)

func posts(addr string, form url.Values) *http.Response {
	for {
		resp, err := http.PostForm(addr, form) // want "not idempotent"
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func patches(addr string) *http.Response {
	for {
		req, _ := http.NewRequest(http.MethodPatch, addr, nil)
		resp, err := http.DefaultClient.Do(req) // want "not idempotent"
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func keyed(addr, key string) *http.Response {
	for {
		req, _ := http.NewRequest(http.MethodPost, addr, nil)
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func puts(addr string) *http.Response {
	for {
		req, _ := http.NewRequest(http.MethodPut, addr, nil)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func throttled(addr string) (*http.Response, error) {
	for {
		resp, err := http.Post(addr, "", nil)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			return resp, err
		}
		resp.Body.Close()
	}
}
