package tagrules

import "strings"

// tree finds the most specific template for a tag. It is not changed once it is built.
type tree struct {
	tokens map[string]*tree
	any    *tree     // *
	rest   *Template // >
	here   *Template // whose pattern ends here
}

// newTree builds the tree of the templates for which use is true.
func newTree(all templates, use func(Template) bool) *tree {
	root := new(tree)
	for i := range all {
		if use(all[i]) {
			root.add(all[i].Pattern, &all[i])
		}
	}
	return root
}

func (n *tree) add(pattern string, t *Template) {
	token, rest, more := strings.Cut(pattern, ".")
	if token == ">" {
		n.rest = t
		return
	}
	next := n.next(token)
	if more {
		next.add(rest, t)
	} else {
		next.here = t
	}
}

// next returns the node behind a token of a pattern, and makes it if need be.
func (n *tree) next(token string) *tree {
	if token == "*" {
		if n.any == nil {
			n.any = new(tree)
		}
		return n.any
	}
	if n.tokens[token] == nil {
		if n.tokens == nil {
			n.tokens = make(map[string]*tree)
		}
		n.tokens[token] = new(tree)
	}
	return n.tokens[token]
}

// find returns the template for a tag, or nil. It goes through a part of the tree at most once.
func (n *tree) find(tag string) *Template {
	token, rest, more := strings.Cut(tag, ".")
	for _, next := range [...]*tree{n.tokens[token], n.any} {
		if next == nil {
			continue
		}
		found := next.here
		if more {
			found = next.find(rest)
		}
		if found != nil {
			return found
		}
	}
	return n.rest
}
