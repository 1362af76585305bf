// Package templates holds the templates of an installation. A template says
// how the tags that match its pattern come into being when they are first
// asked for. Loaders and administrators read them; workers do not.
//
// All templates are one entry, the key "templates" in the bucket
// <prefix>_config, so one compare-and-set decides whether a new one goes with
// the others. There are at most [MaxTemplates].
//
// # Patterns
//
// A pattern matches tags as subjects do in NATS: * is any one token, > at the
// end is one token or more. If several templates match a tag, the most specific
// one counts. Two patterns that share tags without one being more specific are
// refused, so the most specific template is unique.
//
// A tag keeps what its template gave it. Changing or removing the template
// affects only the tags that come into being afterwards.
package templates
