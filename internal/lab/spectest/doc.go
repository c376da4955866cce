// Package spectest holds that spec/schema.json and package spec accept the same
// files.
package spectest
