// Package tagrules is what is known of tags besides a store's row: in which order their IDs go up,
// and which tags come into being when they are first asked for. It is the same for every store.
//
// The rules are in the bucket <prefix>_config:
//
//	order.<tag>   strict          the order of one tag, trend or strict
//	templates     [{…}, {…}, …]   all templates, those that were removed among them
//
// All templates are one entry, so that it is decided by one compare-and-set whether a new one goes
// with the others. There are at most [MaxTemplates].
//
// # Patterns
//
// A template is for the tags that match its pattern, as subjects do in NATS: * is any one token, > in
// the end is one token or more. If several match, the most specific one counts, that is, the one whose
// tags are all among those of the others. Two patterns that share tags without one being more specific
// are refused, so there is always a most specific one. It is found token by token: a token is more
// specific than *, and * is more specific than >.
//
// A template that was removed stays in the entry, and hides nothing: its tags are nobody's until a
// template for them is made again. But they are still known to have come of a template, and so they
// do not turn into ordinary tags by the million; see [Rules.FromTemplate].
//
// # What a missing entry says
//
// Nothing. A rule changes only by what is written: an order by another order or by the marker of a
// deleted key, a template by a new list. If the entries are gone when they are read again, because the
// bucket was restored or emptied, each process goes on with what it had read before: a tag that was
// strict is not taken for an ordinary one. The same holds for entries that are older than those that were
// read: of them only what is strict counts, for other processes may know no more than that.
//
// # Tags become strict
//
// Many ways lead there: an order of a tag's own, or a template that is made, changed, or removed, so that a less
// specific one counts. What anybody was granted while the tag was ordinary must not be answered any more. So
// each process drops what it has in memory of a tag whenever there is another rule by which it is strict
// ([Watcher.Changed], [Watcher.Redecided]); and the rules are written twice, for the owner may
// have been granted IDs before others have acted. An order of a tag's own is written again as it is. A template
// is marked as [Template.Becoming], and [Editor.Settle] takes the mark away. The mark also tells whoever tries again
// that the one before broke off.
//
// # Revisions
//
// Every write of a rule has a revision, and [Watcher.Revision] says up to which one a process has read.
// It moves after [Watcher.Lookup] has the new rules and [Watcher.Changed] has returned. So whoever acts
// on a change in Changed has acted upon each rule up to that revision.
package tagrules
