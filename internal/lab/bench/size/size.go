// Package size weighs what the library adds to a program. Its tests build the
// programs in testdata, for one system and without symbols, so that the
// numbers are the same everywhere.
package size
