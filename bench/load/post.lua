-- Sends the same body to the same path again and again. TO and BODY (a file) come from the environment.
local headers = { ["Authorization"] = "Bearer " .. os.getenv("TOKEN"), ["Content-Type"] = "application/json" }
local body = ""
local file = os.getenv("BODY")
if file then
  local handle = io.open(file)
  body = handle:read("*a")
  handle:close()
end
local threads = {}
steps_done, failed = 0, 0

function setup(thread)
  table.insert(threads, thread)
end

function request()
  return wrk.format("POST", os.getenv("TO"), headers, body)
end

function response(status)
  if status == 200 then
    steps_done = steps_done + 1
  else
    failed = failed + 1
  end
end

function done()
  print("steps " .. threads[1]:get("steps_done") .. " failed " .. threads[1]:get("failed"))
end
