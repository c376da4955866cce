package spentbody

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"
)

func once(url, content string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPut, url, strings.NewReader(content))
	if err != nil {
		return nil, err
	}
	for {
		resp, err := http.DefaultClient.Do(req) // want "reads the body"
		if err == nil {
			return resp, nil
		}
		time.Sleep(time.Second)
	}
}

func reader(url string, body io.Reader) *http.Response {
	for {
		resp, err := http.Post(url, "text/plain", body) // want "reads the body"
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func anew(url string, content []byte) *http.Response {
	for {
		resp, err := http.Post(url, "text/plain", bytes.NewReader(content))
		if err == nil {
			return resp
		}
		time.Sleep(time.Second)
	}
}

func rewinds(url string, body *bytes.Reader) *http.Response {
	for {
		_, _ = body.Seek(0, io.SeekStart)
		resp, err := http.Post(url, "text/plain", body)
		if err == nil {
			return resp
		}
	}
}

func empty(url string) *http.Response {
	req, _ := http.NewRequest(http.MethodDelete, url, http.NoBody)
	for {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			return resp
		}
	}
}

func whateverTheAnswer(url string, content []byte) {
	req, _ := http.NewRequest(http.MethodPost, url, bytes.NewReader(content))
	for range 3 {
		resp, err := http.DefaultClient.Do(req) // want "reads the body"
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		resp.Body.Close()
	}
}

func refused(url string, content []byte) (*http.Response, error) {
	req, _ := http.NewRequest(http.MethodPut, url, bytes.NewReader(content))
	for {
		resp, err := http.DefaultClient.Do(req)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return resp, err
		}
		time.Sleep(time.Second)
	}
}

func afterAWait(url, content string, ready func() bool) (resp *http.Response, err error) {
	req, _ := http.NewRequest(http.MethodPut, url, strings.NewReader(content))
	for {
		if ready() {
			resp, err = http.DefaultClient.Do(req)
			return resp, err
		}
		time.Sleep(time.Second)
	}
}
