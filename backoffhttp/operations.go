package backoffhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gobackoff/backoff"
)

// Operations is a table of the operations of a service. It says which may be
// sent again, for services whose HTTP methods do not show it:
//
//	table, err := backoffhttp.NewOperations(presets.CloudStorageOperations())
//	client := &http.Client{Transport: &backoffhttp.Transport{Idempotency: table.Idempotency}}
//
// It is safe for concurrent use. See [NewOperations].
type Operations struct {
	mux   *http.ServeMux
	rules map[string]rule // by pattern
}

// NewOperations makes a table. Its keys are patterns of [http.ServeMux], such
// as "POST /b/{bucket}/o", with or without a host. If several patterns match,
// the most specific one counts. An escaped slash, %2F, is part of a segment.
// Its values are rules:
//
//   - "always": the request is sent again;
//   - "never": the request is sent again only if it never reached the server,
//     or if it carries an Idempotency-Key;
//   - "key": the request is sent with an Idempotency-Key, which the [Transport]
//     makes;
//   - "after429": the request is sent again after a 429, see [RepeatAfter429];
//   - otherwise a list of conditions, separated by commas. If the request meets
//     one, the rule is "always", and otherwise "never". A condition is what the
//     request must have: "?name" is a parameter of the query, "{name}" a string
//     in the JSON object in the body, which must have GetBody, and "Name" a
//     header. It must not be empty. If-None-Match must be *, and no other
//     header may be.
//
// The error names the pattern that is invalid, or conflicts with another one,
// or whose rule is malformed.
func NewOperations(table map[string]string) (*Operations, error) {
	o := &Operations{mux: http.NewServeMux(), rules: map[string]rule{}}
	for _, pattern := range slices.Sorted(maps.Keys(table)) {
		r, err := parseRule(table[pattern])
		if err == nil {
			err = o.handle(pattern)
		}
		if err != nil {
			return nil, fmt.Errorf("backoffhttp: operation %q: %w", pattern, err)
		}
		o.rules[pattern] = r
	}
	return o, nil
}

// handle adds a pattern. ServeMux panics if the pattern is invalid.
func (o *Operations) handle(pattern string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	o.mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// Idempotency looks a request up, for [Transport.Idempotency]. A request that
// is not in the table is left to the function [Idempotency].
func (o *Operations) Idempotency(req *http.Request) backoff.Idempotency {
	_, pattern := o.mux.Handler(req)
	r, ok := o.rules[pattern]
	switch {
	case !ok:
		return Idempotency(req)
	case keyed(req):
		return backoff.Idempotent
	}
	return r(req)
}

// A rule says whether a request without a key may be sent again.
type rule func(*http.Request) backoff.Idempotency

// condition reports whether a request meets a condition of a rule.
type condition func(*http.Request) bool

// fixedRules are the rules that are a word.
var fixedRules = map[string]backoff.Idempotency{
	"always": backoff.Idempotent,
	"never":  backoff.NonIdempotent,
	"key":    backoff.Keyed,

	"after429": RepeatAfter429,
}

// parseRule reads a rule.
func parseRule(text string) (rule, error) {
	if fixed, ok := fixedRules[strings.TrimSpace(text)]; ok {
		return func(*http.Request) backoff.Idempotency { return fixed }, nil
	}
	var all []condition
	for part := range strings.SplitSeq(text, ",") {
		c, err := parseCondition(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return func(req *http.Request) backoff.Idempotency { return precondition{all, req} }, nil
}

// parseCondition reads a condition.
func parseCondition(text string) (condition, error) {
	param, isParam := strings.CutPrefix(text, "?")
	member, isMember := strings.CutPrefix(text, "{")
	switch {
	case isParam && param != "":
		return func(req *http.Request) bool { return req.URL.Query().Get(param) != "" }, nil
	case isMember && len(member) > 1 && strings.HasSuffix(member, "}"):
		member = member[:len(member)-1]
		return func(req *http.Request) bool { return inBody(req, member) }, nil
	case !isParam && !isMember && text != "" && !strings.ContainsAny(text, " \t{}?"):
		return func(req *http.Request) bool { return inHeader(req, text) }, nil
	}
	return nil, fmt.Errorf("cannot read condition %q", text)
}

// precondition is the Idempotency of a request whose rule has conditions. It
// checks them when it is asked, which is after a failure.
type precondition struct {
	conditions []condition
	req        *http.Request
}

// Repeatable implements [backoff.Idempotency].
func (p precondition) Repeatable(ctx context.Context, c backoff.Class) bool {
	return backoff.NonIdempotent.Repeatable(ctx, c) ||
		slices.ContainsFunc(p.conditions, func(c condition) bool { return c(p.req) })
}

// inHeader reports whether a header has a value that makes the request
// conditional.
func inHeader(req *http.Request, name string) bool {
	value := req.Header.Get(name)
	createOnly := strings.EqualFold(name, "If-None-Match")
	return value != "" && (value == "*") == createOnly
}

// maxRuleBody is how many bytes of a body are searched for a member.
const maxRuleBody = 1 << 20

// inBody reports whether the JSON object in the body of a request has a member
// with that name.
func inBody(req *http.Request, name string) bool {
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	var object map[string]any
	if json.NewDecoder(io.LimitReader(body, maxRuleBody)).Decode(&object) != nil {
		return false
	}
	value, ok := object[name].(string)
	return ok && value != ""
}
