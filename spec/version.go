package spec

import (
	"encoding/json"
	"reflect"
)

// version is the version of the form. There is one so far, and it need not be
// written, so it is read and not kept.
type version int

// fromToken implements literal.
func (*version) fromToken(token json.Token) bool { return token == json.Number("1") }

// wanted implements literal.
func (*version) wanted() string { return "1, the only version that this release reads" }

// checkVersion returns the problem of a text whose version is not known. It is
// what explains the other problems of such a text, wherever the member stands.
func checkVersion(text []byte) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members["version"] == nil {
		return nil
	}
	return newReader(members["version"]).value("version", reflect.ValueOf(new(version)).Elem())
}
