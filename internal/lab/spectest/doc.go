// Package spectest holds that spec/schema.json and package spec accept the same
// files, and what the usual decoders make of a Spec.
package spectest
