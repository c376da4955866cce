package library

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
)

// settings are the fields that a policy, or another struct of the library, has set in the code.
type settings map[string]ast.Expr

// has reports whether one of the fields is set.
func (s settings) has(fields ...string) bool {
	return slices.ContainsFunc(fields, func(field string) bool { return s[field] != nil })
}

// settings returns the fields of the struct that e is, or the one that its variable has. It returns
// nil if the code does not show all of them.
func (m *model) settings(e ast.Expr) settings { return m.settingsOf(e, 5) }

func (m *model) settingsOf(e ast.Expr, depth int) settings {
	if e == nil || depth == 0 {
		return nil
	}
	switch e := pointed(e).(type) {
	case *ast.CompositeLit:
		return keyed(e)
	case *ast.CallExpr:
		return m.settingsOfNew(e)
	case *ast.Ident:
		return m.settingsOfVariable(e, depth)
	}
	return nil
}

func keyed(lit *ast.CompositeLit) settings {
	s := settings{}
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return nil
		}
		if key, ok := kv.Key.(*ast.Ident); ok {
			s[key.Name] = kv.Value
		}
	}
	return s
}

// settingsOfNew is for new(T).
func (m *model) settingsOfNew(call *ast.CallExpr) settings {
	if b, ok := m.object(call.Fun).(*types.Builtin); ok && b.Name() == "new" && m.info.Types[call.Args[0]].IsType() {
		return settings{}
	}
	return nil
}

func (m *model) settingsOfVariable(id *ast.Ident, depth int) settings {
	obj := m.info.ObjectOf(id)
	s := m.settingsOf(m.values.only(obj), depth-1)
	if s == nil {
		return nil
	}
	return merged(s, m.values.fields[obj])
}

func merged(s settings, fields map[string][]value) settings {
	all := maps.Clone(s)
	for field, set := range fields {
		all[field] = set[len(set)-1].expr
		if all[field] == nil {
			return nil
		}
	}
	return all
}

// policies returns the settings of the policies that a Doer has, and whether the code shows all of
// them.
func (m *model) policies(doer ast.Expr) (all []settings, known bool) {
	if doer == nil {
		return nil, false
	}
	switch typeName(m.info.TypeOf(doer)) {
	case "Policy":
		s := m.settings(doer)
		return []settings{s}, s != nil
	case "Supervisor":
		return m.policies(m.settings(doer)["Policy"])
	case "Breaker":
		return nil, true
	}
	with, ok := m.valueOf(doer).(*ast.CallExpr)
	if !ok || m.called(with) != "guard.Service.With" {
		return nil, false
	}
	return m.policies(with.Args[0])
}

// makesMore reports whether a policy may make more than one attempt.
func (c *code) makesMore(s settings) bool {
	if s["MaxAttempts"] == nil {
		return true
	}
	v := c.info.Types[s["MaxAttempts"]].Value
	return v == nil || v.String() != "1"
}
