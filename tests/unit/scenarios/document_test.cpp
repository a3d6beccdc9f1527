#include "scenarios/document.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/errors.h"

using namespace flopcast;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

Document document(const std::string& text) { return Document::parse(text, "f.json"); }

enum class Colour : std::uint8_t { red, green };
constexpr Choice<Colour> kColours[] = {{"red", Colour::red}, {"green", Colour::green}};

}  // namespace

TEST_CASE("values of every kind are read") {
  const auto d = document(R"({
    // a comment
    "text": "a \"b\" é", /* and
    another */ "count": 12, "size": "25 MiB", "share": "12.5%", "plain": 0.25, "on": true,
    "list": [1, 2, 3], "colour": "green", "big": 1e6, "nothing": null
  })");
  const Node root = d.root();
  CHECK(root.at("text").text() == "a \"b\" é");
  CHECK(root.at("count").integer() == 12);
  CHECK(root.at("size").quantity<Bytes>() == mebibytes(25));
  CHECK(root.at("share").fraction() == 0.125);
  CHECK(root.at("plain").fraction() == 0.25);
  CHECK(root.at("on").boolean());
  CHECK(root.at("list").items().size() == 3);
  CHECK(root.at("list").items()[2].integer() == 3);
  CHECK(root.at("colour").one_of(kColours) == Colour::green);
  CHECK(root.at("big").integer() == 1'000'000);
  CHECK(root.at("nothing").is_null());
  CHECK_FALSE(root.find("absent").has_value());
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("text that is not JSON is told where and why") {
  struct Row {
    std::string text;
    std::string message;  // its beginning
  };
  const auto row = GENERATE(values<Row>({
      {"", "f.json: an empty file"},
      {"{", "f.json:1:2: expected a key in double quotes, found the end of the file"},
      {"[1,2,]", "f.json:1:5: a comma before ']'"},
      {"{\"a\":1, // last\n }", "f.json:1:7: a comma before '}'"},
      {"{\"a\" 1}", "f.json:1:6: expected ':', found '1'"},
      {"[1 2]", "f.json:1:4: expected ',' or ']', found '2'"},
      {"{\"a\":NaN}", "f.json:1:6: 'NaN' is not a number"},
      {"{\"a\":-Infinity}", "f.json:1:6: invalid number '-Infinity'"},
      {"{\"a\":tru}", "f.json:1:6: 'tru' is not a JSON value"},
      {"{\"a\":1e999}", "f.json:1:6: '1e999' is too large"},
      {"{\"a\":\"x\n\"}", "f.json:1:6: invalid text"},
      {"{\"a\":1}}", "f.json:1:8: expected the end of the file, found '}'"},
      {"{\"a\":1,\r\n\"b\":2,}", "f.json:2:6: a comma before '}'"},
      {"{\"a\":{\"c\":1,\n \"c\":2}}",
       "f.json:2:2: duplicate key \"c\"; first given at f.json:1:7"},
      {"[{},{\"c\":1,\"d\":[],\"c\":2}]",
       "f.json:1:19: duplicate key \"c\"; first given at f.json:1:6"},
      {"[\"é\" 1]", "f.json:1:6: expected ',' or ']', found '1'"},  // columns are characters
  }));
  CAPTURE(row.text);
  CHECK_THROWS_WITH(document(row.text), StartsWith(row.message));
}

TEST_CASE("deep nesting is refused, not followed") {
  CHECK_THROWS_WITH(document(std::string(100'000, '[')), Contains("1:65: nested deeper than 64"));
  CHECK_NOTHROW(document(std::string(64, '[') + std::string(64, ']')));
}

TEST_CASE("a value of the wrong kind or range is told with what was expected") {
  const auto d = document(R"({"t": "x", "n": 2.5, "big": 99999999999999999999, "neg": -1,
    "size": "4 GB", "bare": 4, "share": "120%", "on": 1, "colour": "grean"})");
  const Node root = d.root();
  CHECK_THROWS_WITH(root.at("t").integer(), "f.json:1:7: /t: expected a whole number, found \"x\"");
  CHECK_THROWS_WITH(root.at("n").integer(), Contains("found 2.5"));
  CHECK_THROWS_WITH(root.at("big").integer(), Contains("found 99999999999999999999"));
  CHECK_THROWS_WITH(root.at("neg").integer(), Contains("at least 0, found -1"));
  CHECK_THROWS_WITH(root.at("neg").number(), Contains("at least 0, found -1"));
  CHECK_THROWS_WITH(root.at("size").quantity<Seconds>(), Contains("a time such as \"3.5 us\""));
  CHECK_THROWS_WITH(root.at("bare").quantity<Bytes>(), Contains("4 has no unit"));
  CHECK_THROWS_WITH(root.at("share").fraction(), Contains("from 0 to 1"));
  CHECK_THROWS_WITH(root.at("on").boolean(), Contains("true or false, found 1"));
  CHECK_THROWS_WITH(root.at("colour").one_of(kColours),
                    Contains("one of red, green, found \"grean\"; did you mean \"green\"?"));
  CHECK_THROWS_WITH(root.at("bare").at("x"), Contains("expected an object, found 4"));
}

TEST_CASE("keys that nobody asked for are told, all of an object at once") {
  const auto d =
      document("{\"links\": [{\"bandwith\": 1, \"latncy\": 2}], \"free\": {\"any\": 1}}");
  const Node root = d.root();
  const Node link = root.at("links").items()[0];
  link.find("bandwidth");
  link.find("latency");
  root.at("free");  // and never looked into
  CHECK_THROWS_WITH(root.finish(),
                    "f.json:1:13: /links/0/bandwith: unknown key; did you mean \"bandwidth\"?\n"
                    "f.json:1:28: /links/0/latncy: unknown key; did you mean \"latency\"?");
  CHECK_THROWS_WITH(link.at("bandwidth"), Contains("/links/0/bandwith: unknown key"));
}

TEST_CASE("keys with slashes and tildes are escaped as JSON pointers have it") {
  const auto d = document("{\"a/b~c\": 1}");
  CHECK(d.root().at("a/b~c").path() == "/a~1b~0c");
}

TEST_CASE("an option sets, creates and takes away") {
  auto d = document("{\"a\": {\"b\": 1, \"c\": 2}, \"list\": [1, 2]}");
  d.set("a.b", "5");
  d.set("a.new.deep", "word");
  d.set("list.1", "7");
  d.set("a.c", "null");
  const Node root = d.root();
  CHECK(root.at("a").at("b").integer() == 5);
  CHECK(root.at("a").at("new").at("deep").text() == "word");
  CHECK(root.at("list").items()[1].integer() == 7);
  CHECK_FALSE(root.at("a").find("c").has_value());
  CHECK_NOTHROW(root.finish());
  CHECK(root.at("a").at("b").place() == "--set a.b=5: /a/b");
  CHECK(root.at("list").items()[0].place() == "f.json:1:34: /list/0");
  CHECK_THROWS_WITH(d.set("list.2", "1"), Contains("not one of the 2 elements"));
  CHECK_THROWS_WITH(d.set("list.x", "1"), Contains("not one of the 2 elements"));
}
