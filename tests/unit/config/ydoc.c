#include "config/ydoc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ydoc_t *parse(const char *text)
{
    ydoc_t *doc;
    err_t err = {0};
    cr_assert_eq(ydoc_parse("m.yaml", text, strlen(text), &doc, &err), STATUS_OK, "%s", err.text);
    return doc;
}

static const char *refusal(const char *text)
{
    static err_t err;
    ydoc_t *doc;
    err = (err_t){0};
    if (ydoc_parse("m.yaml", text, strlen(text), &doc, &err) == STATUS_OK) {
        ydoc_destroy(doc);
        return "accepted";
    }
    return err.text;
}

static const char model_yaml[] = "slo_ms: 25\n"
                                 "preprocess:\n"
                                 "  resize: {width: 224, height: 224, filter: bilinear}\n"
                                 "  mean: [0.485, 0.456, 0.406]\n"
                                 "labels: 'labels.txt'\n"
                                 "preload: yes\n"
                                 "timeout: 1.5s\n"
                                 "memory: 2MiB\n"
                                 "nothing:\n";

Test(ydoc, reads_a_nested_document)
{
    static const char *const filters[] = {"nearest", "bilinear", NULL};
    ydoc_t *doc = parse(model_yaml);
    const ydoc_node_t *root = ydoc_root(doc), *pre = ydoc_get(root, "preprocess");
    int64_t i;
    double d;
    int choice;
    const char *text;
    cr_expect_eq(ydoc_len(root), 7);
    cr_expect_eq(ydoc_int64(ydoc_get(root, "slo_ms"), 1, 1000, &i, NULL), STATUS_OK);
    cr_expect_eq(i, 25);
    cr_expect_eq(ydoc_double(ydoc_at(ydoc_get(pre, "mean"), 1), 0, 1, &d, NULL), STATUS_OK);
    cr_expect_float_eq(d, 0.456, 1e-9);
    cr_expect_eq(ydoc_choice(ydoc_get(ydoc_get(pre, "resize"), "filter"), filters, &choice, NULL), STATUS_OK);
    cr_expect_eq(choice, 1);
    cr_expect_eq(ydoc_string(ydoc_get(root, "labels"), &text, NULL), STATUS_OK);
    cr_expect_str_eq(text, "labels.txt");
    cr_expect(ydoc_is_null(ydoc_get(root, "nothing")));
    cr_expect_str_eq(ydoc_key(pre), "preprocess");
    cr_expect_null(ydoc_get(root, "absent"));
    cr_expect_null(ydoc_get(NULL, "x"));
    ydoc_destroy(doc);
}

Test(ydoc, an_empty_document_is_an_empty_map)
{
    static const char *const empty[] = {"", "# only a comment\n", "---\n", "---\n...\n"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        ydoc_t *doc = parse(empty[i]);
        cr_expect_eq(ydoc_kind(ydoc_root(doc)), YDOC_MAP);
        cr_expect_eq(ydoc_len(ydoc_root(doc)), 0);
        ydoc_destroy(doc);
    }
}

Test(ydoc, errors_say_where)
{
    cr_expect_str_eq(refusal("a: 1\nb: 2\na: 3\n"), "m.yaml:3:1: duplicate key \"a\" (first in line 1)");
    cr_expect_str_eq(refusal("a: &x 1\n"), "m.yaml:1:4: anchors (&name) are not supported");
    cr_expect_str_eq(refusal("a: *x\n"), "m.yaml:1:4: aliases (*name) are not supported");
    cr_expect_str_eq(refusal("a: !!binary x\n"), "m.yaml:1:4: tags (!name) are not supported");
    cr_expect_str_eq(refusal("a: 1\n---\nb: 2\n"), "m.yaml:2:1: only one document is allowed");
    cr_expect_str_eq(refusal("{[1]: 2}\n"), "m.yaml:1:2: a key must be a plain text");
    cr_expect_str_eq(refusal("a: \"x\\0y\"\n"), "m.yaml:1:4: a text must not contain a NUL character");
    cr_expect(strncmp(refusal("a: [1, 2\nb: 3\n"), "m.yaml:2:", 9) == 0, "%s", refusal("a: [1, 2\nb: 3\n"));
    cr_expect(strncmp(refusal("\ta: 1\n"), "m.yaml:1:1: ", 12) == 0);
    cr_expect_not_null(strstr(refusal("a: \xff\xfe\n"), "m.yaml: "));
}

Test(ydoc, bounds)
{
    ydoc_t *doc;
    err_t err = {0};
    char deep[YDOC_MAX_DEPTH + 2], *big = malloc(YDOC_MAX_BYTES + 2);
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    cr_expect_str_eq(refusal(deep), "m.yaml:1:33: nested too deeply");
    memset(big, 'x', YDOC_MAX_BYTES + 1);
    cr_expect_eq(ydoc_parse("m", big, YDOC_MAX_BYTES + 1, &doc, &err), STATUS_TOO_LARGE);
    big[0] = '[';
    for (size_t i = 1; i < YDOC_MAX_BYTES; i++)
        big[i] = i % 2 == 0 ? ',' : '1';
    big[YDOC_MAX_BYTES] = '\0';
    cr_expect_not_null(strstr(refusal(big), "too many values"));
    free(big);
}

Test(ydoc, too_many_keys)
{
    char *text = malloc(20000), *p = text;
    for (int i = 0; i < 1025; i++)
        p += sprintf(p, "k%d: 1\n", i);
    cr_expect_str_eq(refusal(text), "m.yaml:1025:1: too many keys in one map");
    free(text);
}

static const char *value_refusal(const char *yaml, status_t (*read)(const ydoc_node_t *, err_t *))
{
    static err_t err;
    ydoc_t *doc = parse(yaml);
    err = (err_t){0};
    cr_expect_eq(read(ydoc_root(doc), &err), STATUS_INVALID_ARGUMENT);
    ydoc_destroy(doc);
    return err.text;
}

static status_t read_int(const ydoc_node_t *root, err_t *err)
{
    int64_t i;
    return ydoc_int64(ydoc_at(root, 0), 1, 9, &i, err);
}

static status_t read_choice(const ydoc_node_t *root, err_t *err)
{
    static const char *const choices[] = {"nchw", "nhwc", NULL};
    int i;
    return ydoc_choice(ydoc_get(root, "n"), choices, &i, err);
}

static status_t check_keys(const ydoc_node_t *root, err_t *err)
{
    static const char *const allowed[] = {"slo_ms", "max_batch", NULL};
    return ydoc_check_keys(root, allowed, err);
}

static status_t read_int_in_list(const ydoc_node_t *root, err_t *err)
{
    int64_t value;
    return ydoc_int64(ydoc_at(ydoc_get(root, "n"), 1), 1, 9, &value, err);
}

Test(ydoc, bad_values_say_where_and_what)
{
    cr_expect_str_eq(value_refusal("\n  n: ten\n", read_int), "m.yaml:2:3: n: \"ten\" is not a whole number");
    cr_expect_str_eq(value_refusal("n: 10\n", read_int), "m.yaml:1:1: n: 10 is not between 1 and 9");
    cr_expect_str_eq(value_refusal("n:\n", read_int),
                     "m.yaml:1:1: n: expected a single value, found nothing");
    cr_expect_str_eq(value_refusal("n: [1]\n", read_int),
                     "m.yaml:1:1: n: expected a single value, found a list");
    cr_expect_str_eq(value_refusal("n: chw\n", read_choice),
                     "m.yaml:1:1: n: \"chw\" is not one of nchw, nhwc");
    cr_expect_str_eq(value_refusal("n:\n- 1\n- ten\n", read_int_in_list),
                     "m.yaml:3:3: \"ten\" is not a whole number");
    cr_expect_str_eq(
        value_refusal("slo_ms: 1\nmaxbatch: 2\n", check_keys),
        "m.yaml:2:1: unknown key \"maxbatch\", did you mean \"max_batch\"? (allowed: slo_ms, max_batch)");
    cr_expect_str_eq(value_refusal("[1, 2]\n", check_keys), "m.yaml:1:1: expected a map, found a list");
}

Test(ydoc, a_long_key_does_not_hide_what_is_wrong)
{
    char yaml[ERR_TEXT_BYTES + 64], key[61];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    memset(yaml, 'k', sizeof yaml);
    snprintf(yaml + ERR_TEXT_BYTES, sizeof yaml - ERR_TEXT_BYTES, ": 10\n");
    const char *text = value_refusal(yaml, read_int);
    cr_expect_not_null(strstr(text, key), "%s", text);
    cr_expect_not_null(strstr(text, "k: 10 is not between 1 and 9"), "%s", text);
}

Test(ydoc, files_that_cannot_be_read)
{
    ydoc_t *doc;
    err_t err = {0};
    cr_expect_eq(ydoc_load("/nowhere/x.yaml", &doc, &err), STATUS_NOT_FOUND);
    cr_expect_str_eq(err.text, "/nowhere/x.yaml: No such file or directory");
    cr_expect_eq(ydoc_load("/", &doc, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(err.text, "/: a folder, not a regular file");
}

/* Whoever may write into a repository may make one: the worker must not wait for its writer. */
Test(ydoc, a_fifo_is_no_file, .timeout = 120)
{
    char folder[] = "/tmp/fermata-ydoc-XXXXXX", path[64];
    ydoc_t *doc;
    err_t err;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config.yaml", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(ydoc_load(path, &doc, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "config.yaml: a FIFO, not a regular file"), "%s", err.text);
    unlink(path);
    rmdir(folder);
}
