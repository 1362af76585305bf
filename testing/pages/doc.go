// Package pages reads the README and the pages in docs as their readers do, and tests them: the
// commands are typed, one after the other, and links are followed.
//
// What counts as a command:
//
//   - In a fenced block without a language, or with console, sh or bash, a line that begins with
//     "$ " is typed. A backslash at its end continues it. The lines below are what it prints.
//   - "^C" is Ctrl-C to what runs in that terminal. The lines below are printed then.
//   - A block of "sql run" is executed by the administrator of MariaDB or MySQL at 127.0.0.1:3306,
//     and one of "sql run postgres" by that of PostgreSQL at 127.0.0.1:5432.
//   - A block is typed in the terminal that the paragraph above it names ("In terminal 2:"),
//     otherwise in that of the block before; or in a new one, if something runs there that stays.
//     A new terminal knows nothing of the variables of others.
//   - Each page begins with a fresh copy of the repository, in which bin/idworker is built, and
//     bin is in the PATH.
//
// What is printed has to be what the page says, as far as it is the same each time: see [Matches].
// A line "…" stands for any lines, and "…" in a line for any text. Where no output is shown, any
// will do. A command has to succeed, unless the page shows the error.
//
// Comments in a page, on a line of their own above a block:
//
//	<!-- not run: why; tested in testing/e2e/some_test.go -->
//	<!-- page not run: why; … -->    for all blocks of the page
//	<!-- file: hub.conf -->          the block is a file of this name, which the reader makes
//	<!-- figures vary -->            numbers in the output are others each time
//
// A comment that says "not run" names a file of the repository that runs or tests it instead.
package pages
