package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

// writes are the answers to the first writes. All others succeed.
var writes = []int{http.StatusConflict, http.StatusServiceUnavailable, http.StatusConflict, http.StatusServiceUnavailable}

// reasons are those of metav1.StatusReason.
var reasons = map[int]string{http.StatusConflict: "Conflict", http.StatusServiceUnavailable: "ServiceUnavailable"}

// startAPI starts an API server with one ConfigMap.
func startAPI(log *journal.Journal) *httptest.Server {
	var n atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if i := n.Load(); r.Method == http.MethodPut && i < int64(len(writes)) {
			status = writes[i]
			n.Add(1)
		}
		log.Say("    API server: %s %d %s", r.Method, status, http.StatusText(status))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(object(status))
	}))
}

// object is the ConfigMap, or the error.
func object(status int) map[string]any {
	if status == http.StatusOK {
		return map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "settings", "namespace": "default", "resourceVersion": "1"},
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure",
		"code": status, "reason": reasons[status], "message": http.StatusText(status),
	}
}
