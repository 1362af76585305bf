// Package templates holds the templates of an installation. A template defines
// how a tag that matches its pattern is created on its first request. Loaders
// and administrators read templates; workers do not.
//
// All templates are one entry, the key "templates" in the bucket
// <prefix>_config, so a compare-and-set decides whether a new template is
// compatible with the others. There are at most [MaxTemplates].
//
// # Patterns
//
// A pattern matches tags as NATS matches subjects: * is any one token, > at the
// end is one token or more. If several templates match a tag, the most specific
// template applies. Two patterns that share tags, neither being more specific,
// are refused, so the most specific template is unique.
//
// A tag keeps the values of its template. Changing or removing the template
// affects only tags created afterwards.
package templates
