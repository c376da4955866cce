// Package recipes has the code of docs/recipes.md, which its tests run:
//
//	go test -C examples -v ./recipes
//
// The examples call real servers on loopback, and print what came of it.
package recipes
